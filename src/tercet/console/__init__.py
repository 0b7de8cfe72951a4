"""The console: pages for operators and approvers, rendered on the server and mounted under `/console`.

To add a page:

1. Write a handler in a module of this package, `async def show(visit: Visit) -> Response`, and list it in the module's
   `PAGES`, such as `Page("/console/packs", show)` or `Page("/console/stops", stop, method="POST")`. Parameters of the
   path are in `visit.path`, those of the query in `visit.query`.
2. Add the module's `PAGES` to `tercet.console.site`, and its link to `NAV` in `tercet.console.visit`.
3. Render with `visit.render("packs.html.j2", title="Packs", section="packs", **values)`. The template extends
   `base.html.j2`; every value that it prints is escaped and made visible, and the filters and macros of the report
   (`plan.html.j2`, `quality.html.j2`, `parts.html.j2`) are there too.
4. Read with `await visit.call("getSession", session_id=…)`, the same methods as the API with the caller's authority;
   `await visit.run_view(session_id)` is the whole view of a run. An error becomes a page with its code and remedy.
5. Change something only in a handler for POST: `{{ hidden(csrf) }}` (from `forms.html.j2`) in the form is checked before
   the handler runs, `visit.form` holds the fields, `await visit.call("pauseSession", …)` does it, and
   `return visit.redirect(path)` ends it. It has to work without script.
6. An element with an id and `data-live` is brought up to date every two seconds (`static/console.js`), without script
   by the next visit. Keep forms out of it. No inline script or style: the policy of every page forbids them.
"""
