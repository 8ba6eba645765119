import { describedName } from '../../../openapi/described-code.ts';
import { useQuery } from '../data/query.ts';
import { href } from '../data/route.ts';
import { useSession } from '../data/session.ts';
import type { DescribedCode } from '../data/types.ts';
import { Empty, ErrorCode, Loaded } from '../elements/states.tsx';
import { type Column, type List, rowNames, Table } from '../elements/table.tsx';
import { Card, Facts, Heading } from '../elements/view.tsx';

/** What one code means, or all of them. */
export function ErrorsView({ code }: { code: string | undefined }) {
  const { readCodes } = useSession();
  const query = useQuery(readCodes, 'codes');
  return (
    <>
      <Heading title={code ?? 'Error codes'}>{code && <code>{code}</code>}</Heading>
      <Loaded query={query} lines={8}>
        {(codes) => (code === undefined ? <AllCodes codes={codes} /> : <OneCode code={code} codes={codes} />)}
      </Loaded>
    </>
  );
}

/** Backquotes set off names in openapi.yaml. */
const plain = (text: string) => text.replaceAll('`', '');

function OneCode({ code, codes }: { code: string; codes: readonly DescribedCode[] }) {
  const described = codes.find((known) => known.code === describedName(code));
  if (!described) {
    return (
      <Empty title="No error of this gateway has this code">
        <a href={href(['errors'])}>All error codes</a>
      </Empty>
    );
  }
  const { status, type, meaning } = described;
  return (
    <Card text label={`What ${code} means`}>
      <p>{plain(meaning)}</p>
      <Facts
        facts={
          status === null
            ? [['Where', 'An attempt to deliver an event']]
            : [
                ['Where', 'An answer of the API'],
                ['HTTP status', status],
                ['error.type', <code>{type}</code>],
              ]
        }
      />
      <p>
        <a href={href(['errors'])}>All error codes</a>
      </p>
    </Card>
  );
}

const name = rowNames<DescribedCode>('Code', ({ code }) => <ErrorCode code={code} />);
const meaning: Column<DescribedCode> = {
  head: 'What it means',
  width: '60%',
  class: 'cell-wide',
  cell: ({ meaning }) => plain(meaning),
};
const list: List<DescribedCode> = { kind: 'codes', columns: [name, meaning], keyOf: ({ code }) => code };
const status: Column<DescribedCode> = { head: 'Status', name: true, class: 'numbers', cell: ({ status }) => status };

function AllCodes({ codes }: { codes: readonly DescribedCode[] }) {
  const answered = codes.filter(({ status }) => status !== null);
  const recorded = codes.filter(({ status }) => status === null);
  return (
    <>
      <Card id="answered" title="Answers of the API">
        <Table {...list} columns={[name, status, meaning]} caption="Codes of errors" rows={answered} />
      </Card>
      <Card id="recorded" title="Attempts to deliver an event">
        <Table {...list} caption="Codes of failed attempts" rows={recorded} />
      </Card>
    </>
  );
}
