declare module 'swagger-ui-dist/swagger-ui-bundle.js' {
  /** https://swagger.io/docs/open-source-tools/swagger-ui/usage/configuration/ */
  const SwaggerUi: {
    (options: Readonly<Record<string, unknown>>): unknown;
    readonly presets: { readonly apis: unknown };
  };
  export default SwaggerUi;
}
