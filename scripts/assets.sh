#!/bin/sh
# Bundles the console's front-end libraries out of the npm packages that
# package-lock.json names, into the folder that the server embeds.
set -eu

vendor=web/console/static/vendor
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "assets: fetching the console's libraries from npm" >&2
if ! npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >"$log" 2>&1 </dev/null; then
	tail -n 10 "$log" >&2
	echo "assets: npm could not fetch the packages (see above). The console works without them, but does not move by itself, and there is no GraphiQL." >&2
	echo "assets: try 'go tool task assets' again when the npm registry can be reached." >&2
	exit 0
fi

# One file: htmx starts as soon as the page is parsed, and an extension that
# arrives after that is never seen.
htmx=node_modules/htmx.org/dist
{
	cat "$htmx/htmx.min.js"
	printf '\n;\n'
	cat "$htmx/ext/hx-sse.min.js"
} | sed 's|^//# sourceMappingURL=.*||' >"$vendor/htmx.js.new"
mv "$vendor/htmx.js.new" "$vendor/htmx.js"

# GraphiQL's bundle needs React beside it and nothing else: package.json puts
# React, which is here anyway, in the place of the parts that are inside it.
for part in react/umd/react.production.min.js react-dom/umd/react-dom.production.min.js graphiql/graphiql.min.js; do
	sed 's|^//# sourceMappingURL=.*||' "node_modules/$part"
	printf '\n;\n'
done >"$vendor/graphiql.js.new"
mv "$vendor/graphiql.js.new" "$vendor/graphiql.js"
cp node_modules/graphiql/graphiql.min.css "$vendor/graphiql.css"

# dagre lays out the graphs of workflows.
sed 's|^//# sourceMappingURL=.*||' node_modules/@dagrejs/dagre/dist/dagre.min.js >"$vendor/dagre.js.new"
mv "$vendor/dagre.js.new" "$vendor/dagre.js"

# uPlot draws the charts.
cp node_modules/uplot/dist/uPlot.iife.min.js "$vendor/uplot.js"
cp node_modules/uplot/dist/uPlot.min.css "$vendor/uplot.css"
