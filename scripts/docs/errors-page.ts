import type { CodeInfo } from '@gantry/contract'

/** docs/errors.md, from the table in the contract. */
export function errorsPage(codes: Readonly<Record<string, CodeInfo>>): string {
  const rows = Object.entries(codes).map(
    ([code, row]) =>
      `| \`${code}\` | ${row.stage} | ${row.status} | ${row.retryable ? 'yes' : 'no'} | ${row.effect} | ${row.http} | ${row.exit} | ${row.summary} ${row.remedy} |`,
  )
  return `# Errors

Every failure has a code from this table, in results, in thrown \`ToolError\`s and on the wire. The page is written by
\`npm run docs -- --write\` from \`packages/contract/src/codes.ts\`, and a test compares the two.

An error is \`{ code, message, stage, retryable, effect, details?, cause? }\`. \`retryable\`: the same call, sent again
unchanged, may succeed. \`effect\`: \`none\` when the call certainly changed nothing, \`possible\` when it may have; a place
that knows better than the table narrows it (a timeout before the tool started has effect \`none\`, and so has every
failure of a \`read\` tool). \`details.issues\` lists each failing path with its constraint, \`details.nearest\` near names.

| code | stage | status | retryable | effect | HTTP | exit | meaning and remedy |
|---|---|---|---|---|---|---|---|
${rows.join('\n')}
`
}
