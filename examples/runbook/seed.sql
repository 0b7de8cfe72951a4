INSERT INTO releases (service, version, memory_percent, is_archived) VALUES
    ('search', '5.2.0', 40, 0),
    ('cart', '8.1.0', 97, 0), ('cart', '8.0.4', 35, 0),
    ('checkout', '3.3.0', 96, 0), ('checkout', '3.2.9', 30, 1),
    ('invoices', '2.0.0', 95, 0), ('invoices', '1.9.0', 30, 1);

INSERT INTO hosts (host, service, version, in_balancer, memory_percent, is_frozen) VALUES
    ('web-1', 'search', '5.2.0', 1, 94, 0),
    ('web-2', 'cart', '8.1.0', 1, 97, 1),
    ('web-3', 'checkout', '3.3.0', 1, 96, 1),
    ('web-4', 'invoices', '2.0.0', 1, 95, 1),
    ('spare-1', NULL, NULL, 0, 0, 0);
