/** What the tests can run against. Engines join the list with the first test that needs them. */
const engines: readonly { readonly name: string; readonly used: string }[] = [
  { name: `node ${process.versions.node}`, used: 'pinned through npm; runs everything' },
]

/** A table of the engines used and of those missing with the reason. */
export function engineTable(): string {
  return ['', 'Engines used:', ...engines.map(({ name, used }) => `  ${name} – ${used}`)].join('\n')
}
