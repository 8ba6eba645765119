import SwaggerUi from 'swagger-ui-dist/swagger-ui-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import './main.css';

/**
 * Shows the description of the API. Requests go to where the page itself has come from: behind a proxy that takes a prefix off
 * the path, the gateway does not know that address.
 */
async function show(element: HTMLElement): Promise<void> {
  const root = new URL(element.dataset.root ?? '/', location.href);
  const response = await fetch(new URL('v1/openapi.json', root));
  if (!response.ok) throw new Error(`The description of the API was answered ${response.status}`);
  const description: object = await response.json();
  const servers = [{ url: root.pathname.replace(/\/$/, '') || '/', description: 'This gateway' }];
  SwaggerUi({
    spec: { ...description, servers },
    domNode: element,
    presets: [SwaggerUi.presets.apis],
    layout: 'BaseLayout',
    deepLinking: true,
    docExpansion: 'list',
    // the schemas of an operation are shown with it
    defaultModelsExpandDepth: -1,
    filter: true,
    tryItOutEnabled: true,
    persistAuthorization: false,
    // nothing is sent to a validator elsewhere
    validatorUrl: null,
  });
}

const element = document.getElementById('reference');
if (element) {
  show(element).catch((error: unknown) => {
    element.textContent = `The reference cannot be shown: ${String(error)}`;
  });
}
