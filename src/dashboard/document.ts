/** The page may load its own script and style and call its own API, and nothing from anywhere else. */
export const contentSecurityPolicy = Object.freeze({
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  connectSrc: ["'self'"],
  imgSrc: ["'self'", 'data:'],
  baseUri: ["'none'"],
  formAction: ["'none'"],
  frameAncestors: ["'none'"],
  requireTrustedTypesFor: ["'script'"],
  trustedTypes: ["'none'"],
});

const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%234f46e5'/%3E%3Cpath d='M4 8h5m0 0L6.5 5.5M9 8l-2.5 2.5M12 4.5v7' stroke='white' stroke-width='1.5' fill='none' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/** What {@link pageDocument} names. */
export interface DocumentParts {
  /** The file's name, below `assets/`. */
  readonly script: string;
  /** The file's name, below `assets/`. */
  readonly style: string;
  /** Whether the host has sessions, so that the page asks for one before it shows a form. */
  readonly sessions: boolean;
}

/** The HTML of the page. Every URL in it is relative, so that it works below any prefix. */
export function pageDocument({ script, style, sessions }: DocumentParts): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Webhooks</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="assets/${style}">
<script type="module" src="assets/${script}"></script>
</head>
<body>
<div id="app" data-sign-in="${sessions ? 'session' : 'key'}"></div>
<noscript>This page needs JavaScript.</noscript>
</body>
</html>
`;
}
