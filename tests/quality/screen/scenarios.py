"""What the texts under test are held against: an order of a lamp shop, and a prescription."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tercet.contracts.documents import DocumentValue, KnownValue, TokenVerdict
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.locales import read_text
from tercet.quality.screen import screen
from tercet.quality.values import known_values

LANGUAGES = ("en", "de", "fr", "es", "ru")

UNITS = {
    "times_per_day": {
        "en": {"one": "once a day", "other": "{} times a day"},
        "de": {"one": "einmal täglich", "other": "{}-mal täglich"},
        "fr": {"one": "une fois par jour", "other": "{} fois par jour"},
        "es": {"one": "una vez al día", "other": "{} veces al día"},
        "ru": {
            "one": "{} раз в день",
            "few": "{} раза в день",
            "many": "{} раз в день",
            "other": "{} раза в день",
        },
    }
}


def _labels(**words: str) -> dict[str, list[str]]:
    return {language: text.split("; ") for language, text in words.items()}


RULES: dict[str, list[dict[str, Any]]] = {
    "order": [
        {"name": "order_id", "from": "order#/order_id", "type": "identifier",
         "labels": _labels(en="order; order number", de="Bestellung; Bestellnummer", fr="commande", es="pedido", ru="заказ")},
        {"name": "invoice_id", "from": "order#/invoice_id", "type": "identifier",
         "labels": _labels(en="invoice; Ref", de="Rechnung; Rechnungsnummer; Betreff", fr="facture; réf", es="factura", ru="счёт")},
        {"name": "order_total", "from": "order#/total", "type": "money", "currency": "EUR",
         "labels": _labels(en="total; order total", de="Gesamtbetrag; Summe", fr="total; montant total", es="total; importe total", ru="сумма; итого")},
        {"name": "discount", "from": "order#/discount", "type": "money", "currency": "EUR",
         "labels": _labels(en="discount", de="Rabatt", fr="remise", es="descuento", ru="скидка")},
        {"name": "amount_due", "cel": "order.total - order.discount", "type": "money", "currency": "EUR",
         "labels": _labels(en="amount due; to pay; you owe", de="zu zahlen; offener Betrag", fr="à payer; solde", es="a pagar; saldo", ru="к оплате")},
        {"name": "vat", "from": "order#/vat_percent", "type": "percent",
         "labels": _labels(en="VAT", de="MwSt; Mehrwertsteuer", fr="TVA", es="IVA", ru="НДС")},
        {"name": "customer", "from": "order#/customer", "type": "name",
         "labels": _labels(en="Dear; customer", de="Sehr geehrte; Frau; Liebe", fr="Chère; Madame", es="Estimada; señora", ru="Уважаемая; госпожа")},
        {"name": "agent", "from": "order#/agent", "type": "name",
         "labels": _labels(en="regards; your contact", de="Mit freundlichen Grüßen; Ansprechpartner", fr="Cordialement; interlocuteur", es="Atentamente; contacto", ru="С уважением; менеджер")},
        {"name": "return_window", "from": "order#/return_days", "type": "count", "unit": "day",
         "labels": _labels(en="return; send back", de="Rückgabe; zurücksenden; Rückgabefrist", fr="retour; retourner", es="devolución; devolver", ru="возврат; вернуть")},
        {"name": "delivery_time", "from": "order#/delivery_days", "type": "count", "unit": "day",
         "labels": _labels(en="delivery takes; delivery time; ship", de="Lieferzeit; Lieferung dauert", fr="délai de livraison; livraison", es="plazo de entrega; entrega", ru="срок доставки; доставка")},
        {"name": "delivered_on", "from": "order#/delivered_on", "type": "date",
         "labels": _labels(en="delivered; delivery", de="geliefert; Lieferdatum; zugestellt", fr="livrée; livraison", es="entregado; entrega", ru="доставлен; доставка")},
        {"name": "due_on", "from": "order#/due_on", "type": "date",
         "labels": _labels(en="due; pay by", de="fällig; Zahlungsziel", fr="échéance; payer avant", es="vencimiento; vence; pagar antes", ru="оплатить до; срок оплаты")},
        {"name": "reminders", "from": "order#/reminders", "type": "count",
         "labels": _labels(en="reminder", de="Mahnung", fr="rappel", es="recordatorio", ru="напоминание")},
        {"name": "email", "from": "order#/email", "type": "identifier",
         "labels": _labels(en="write to; e-mail", de="E-Mail; schreiben Sie an", fr="écrivez à; courriel", es="escriba a; correo", ru="пишите на; почта")},
        {"name": "phone", "from": "order#/phone", "type": "identifier",
         "labels": _labels(en="call; phone", de="Tel; Telefon", fr="téléphone; appelez", es="teléfono; llame", ru="телефон; звоните")},
        {"name": "iban", "from": "order#/iban", "type": "identifier",
         "labels": _labels(en="IBAN; account", de="IBAN; Konto", fr="IBAN; compte", es="IBAN; cuenta", ru="IBAN; счет получателя")},
        {"name": "items", "from": "order#/items", "type": "table", "currency": "EUR",
         "columns": ["name", "quantity:count", "unit_price:money"],
         "labels": _labels(en="items", de="Artikel", fr="articles", es="artículos", ru="товары"),
         "headings": {"en": ["Item", "Quantity", "Unit price"], "de": ["Artikel", "Anzahl", "Einzelpreis"],
                      "fr": ["Article", "Quantité", "Prix unitaire"], "es": ["Artículo", "Cantidad", "Precio unitario"],
                      "ru": ["Товар", "Количество", "Цена"]}},
        {"name": "items_sum", "sum_of": "order#/items", "fields": ["quantity", "unit_price"], "type": "money",
         "currency": "EUR", "labels": _labels(en="goods", de="Warenwert", fr="marchandises", es="mercancía", ru="товары на")},
    ],
    "clinic": [
        {"name": "frequency", "from": "prescription#/times_per_day", "type": "count", "unit": "times_per_day",
         "labels": _labels(en="frequency", de="Häufigkeit", fr="fréquence", es="frecuencia", ru="частота")},
        {"name": "dose", "from": "prescription#/dose_mg", "type": "count", "unit": "milligram",
         "labels": _labels(en="dose; tablet of", de="Dosis; Tablette zu", fr="dose", es="dosis", ru="доза")},
        {"name": "duration", "from": "prescription#/weeks", "type": "count", "unit": "week",
         "labels": _labels(en="treatment; for", de="Behandlung; Dauer", fr="traitement; pendant", es="tratamiento; durante", ru="лечение; курс")},
        {"name": "drug", "from": "prescription#/drug", "type": "text"},
        {"name": "appointment", "from": "visit#/at", "type": "date",
         "labels": _labels(en="appointment; visit", de="Termin", fr="rendez-vous", es="cita", ru="приём; визит")},
        {"name": "doctor", "from": "visit#/doctor", "type": "name",
         "labels": _labels(en="Dr; with", de="Dr; bei", fr="Dr; docteur", es="Dra; doctora", ru="доктор; врач")},
        {"name": "room", "from": "visit#/room", "type": "identifier",
         "labels": _labels(en="room", de="Raum; Zimmer", fr="salle", es="sala", ru="кабинет")},
        {"name": "fee", "from": "visit#/fee", "type": "money", "currency_from": "visit#/currency",
         "labels": _labels(en="fee; costs", de="Gebühr; kostet", fr="honoraires; coûte", es="honorarios; cuesta", ru="стоимость; стоит")},
    ],
    "club": [
        {"name": "member", "from": "member#/name", "type": "name", "labels": _labels(en="Dear", ja="様")},
        {"name": "begins", "from": "member#/begins", "type": "date",
         "labels": _labels(en="membership from", de="Zeitraum vom", fr="période du", ja="開始日")},
        {"name": "ends", "from": "member#/ends", "type": "date",
         "labels": _labels(en="membership", de="Zeitraum", fr="période", ja="終了日")},
        {"name": "fee", "from": "member#/fee", "type": "money", "currency": "EUR",
         "labels": _labels(en="fee; payments; each one", de="Beitrag", fr="pénalités", ja="会費")},
        {"name": "late", "from": "member#/late_fee", "type": "money", "currency": "EUR",
         "labels": _labels(en="a day", fr="par jour", ja="延滞料")},
        {"name": "visits", "from": "member#/visits", "type": "count", "labels": _labels(en="visits", ru="мест")},
        {"name": "closes", "from": "club#/closes", "type": "text", "labels": _labels(en="to; until")},
        {"name": "phone", "from": "club#/phone", "type": "identifier", "labels": _labels(en="call; tfno.", ja="電話")},
        {"name": "parts", "from": "club#/parts", "type": "table", "columns": ["part", "count", "price"]},
    ],
}  # fmt: skip

FACTS: dict[str, list[Evidence]] = {
    "order": [
        Evidence(
            id="kg:order:ord_882#snapshot_1",
            trust=Trust.TRUSTED,
            content={
                "order_id": "ORD-882", "invoice_id": "INV-2041", "total": 74.0, "discount": 10, "vat_percent": 19,
                "customer": "Anna Rao", "agent": "Jonas Keller", "return_days": 14, "delivery_days": 3,
                "delivered_on": "2026-05-04", "due_on": "2026-05-18", "reminders": 2,
                "email": "help@lumen.example", "phone": "+49 30 1234567", "iban": "DE89370400440532013000",
                "street": "12 Harbour Street",
                "items": [
                    {"name": "Linen shade", "quantity": 2, "unit_price": 12.25},
                    {"name": "Oak base 300", "quantity": 1, "unit_price": 49.5},
                ],
            },
        ),
        Evidence(id="kg:form:f_1#snapshot_1", content={"wish": "refund of 555 EUR", "claimed": 555}),
    ],
    "club": [
        Evidence(
            id="kg:member:m_1#snapshot_1",
            trust=Trust.TRUSTED,
            content={"name": "Mio Reyes", "begins": "2026-02-01", "ends": "2026-08-31", "fee": 29.5, "late_fee": 0.15, "visits": 47},
        ),
        Evidence(
            id="kg:earlier:m_0#snapshot_1",
            trust=Trust.TRUSTED,
            content={"membership": "2025-08-31", "phone": "030 555 0199"},
        ),
        Evidence(
            id="kg:club:c_1#snapshot_1",
            trust=Trust.TRUSTED,
            content={
                "name": "Club Three Harbours", "phone": "(555) 010-0142", "closes": "22:30",
                "parts": [{"part": "Grip", "count": 2, "price": 4.5}],
            },
        ),
    ],
    "clinic": [
        Evidence(
            id="kg:prescription:rx_7#snapshot_1",
            trust=Trust.TRUSTED,
            content={"times_per_day": 2, "dose_mg": 500, "weeks": 6, "drug": "Amoxil 500"},
        ),
        Evidence(
            id="kg:visit:v_3#snapshot_1",
            trust=Trust.TRUSTED,
            content={"at": "2026-06-03T14:30:00+02:00", "doctor": "Ines Moreau", "room": "B12", "fee": 1250.5, "currency": "USD"},
        ),
    ],
}  # fmt: skip


@lru_cache
def known_in(scenario: str, language: str) -> tuple[KnownValue, ...]:
    """Return the known values of a scenario."""
    rules = [DocumentValue.model_validate(rule) for rule in RULES[scenario]]
    request = {"order_ref": "REQ-5", "note": "N-77"}
    return known_values(rules, FACTS[scenario], request, ("note",), language)


def screened(text: str, language: str, scenario: str = "order") -> tuple[TokenVerdict, ...]:
    """Return the verdicts on a text by an agent."""
    known = known_in(scenario, language.partition("_")[0])
    return screen(read_text("/letter", text, known, language, UNITS, "agent"), known)
