/** A page may load its own script and style and call its own API, and nothing from anywhere else. */
const ownOrigin = {
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  connectSrc: ["'self'"],
  imgSrc: ["'self'", 'data:'],
  baseUri: ["'none'"],
  formAction: ["'none'"],
  frameAncestors: ["'none'"],
};

/** The policy of the dashboard. */
export const contentSecurityPolicy = Object.freeze({
  ...ownOrigin,
  requireTrustedTypesFor: ["'script'"],
  trustedTypes: ["'none'"],
});

/** The policy of the reference. Swagger UI sets `innerHTML`, to texts of openapi.yaml that DOMPurify has cleaned. */
export const referencePolicy = Object.freeze(ownOrigin);

const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%234f46e5'/%3E%3Cpath d='M4 8h5m0 0L6.5 5.5M9 8l-2.5 2.5M12 4.5v7' stroke='white' stroke-width='1.5' fill='none' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/** The files that a document names, below `assets/`. */
export interface Assets {
  readonly script: string;
  readonly style: string;
}

/** What {@link pageDocument} depends on. */
export interface PageSettings {
  /** Whether the host has sessions, so that the page asks for one before it shows a form. */
  readonly sessions: boolean;
  /** Whether the API reference is beside the page. */
  readonly reference: boolean;
}

function document({ script, style }: Assets, head: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}
<meta name="robots" content="noindex">
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="assets/${style}">
<script type="module" src="assets/${script}"></script>
</head>
<body>
${body}
<noscript>This page needs JavaScript.</noscript>
</body>
</html>
`;
}

/** The HTML of the dashboard. Every URL in it is relative, so that it works below any prefix. */
export function pageDocument(assets: Assets, { sessions, reference }: PageSettings): string {
  const head = '<meta name="color-scheme" content="light dark">\n<title>Webhooks</title>';
  const signIn = sessions ? 'session' : 'key';
  return document(assets, head, `<div id="app" data-sign-in="${signIn}" data-reference="${reference}"></div>`);
}

/**
 * The HTML of the API reference.
 * @param root the relative address of the router's mount point: `../../`
 */
export function referenceDocument(assets: Assets, root: string): string {
  const link = '<header class="reference-head"><a href="../">Dashboard</a></header>';
  const main = `<main id="reference" data-root="${root}"></main>`;
  return document(assets, '<title>API reference</title>', `${link}\n${main}`);
}
