interface Props {
  readonly head: readonly string[];
  readonly rows: readonly {
    readonly key: string;
    readonly name: string;
    readonly values: readonly (string | number)[];
  }[];
}

/** The numbers of a chart, for readers who cannot see it. */
export function AsTable({ head, rows }: Props) {
  return (
    <details class="as-table">
      <summary>The same as a table</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {head.map((text) => (
                <th key={text} scope="col">
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, name, values }) => (
              <tr key={key}>
                <th scope="row">{name}</th>
                {values.map((value, i) => (
                  <td key={head[i + 1]}>{value}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
