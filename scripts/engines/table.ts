import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { BuiltEngine } from './built.ts'
import { hasProgram, programs } from './packages.ts'

interface Engine {
  readonly name: string
  readonly use: string
  /** Why it was not used; absent when it was used. */
  readonly missing?: string
}

/** The engines that the tests can use. */
function engines(root: string, built: readonly BuiltEngine[]): Engine[] {
  const suite = existsSync(join(root, '../shared/data/json-schema-test-suite'))
  return [
    { name: `Node ${process.versions.node}`, use: 'everything' },
    {
      name: 'JSON-Schema-Test-Suite',
      use: 'schema',
      ...(suite ? {} : { missing: 'no ../shared/data/json-schema-test-suite beside the checkout' }),
    },
    ...programs.map(({ name, package: from, use }) => ({
      name,
      use,
      ...(hasProgram(name) ? {} : { missing: `not installed; apt-get install ${from}` }),
    })),
    ...built,
  ]
}

/** A table of the used engines, and of the missing ones with the reason. */
export function engineTable(root: string, built: readonly BuiltEngine[]): string {
  const rows = engines(root, built).map(({ name, use, missing }) => {
    return `  ${missing === undefined ? 'used   ' : 'missing'}  ${name.padEnd(24)} ${use}${missing === undefined ? '' : `: ${missing}`}`
  })
  return ['', 'Engines', ...rows].join('\n')
}

/** Names of missing engines. */
export function missingEngines(root: string, built: readonly BuiltEngine[]): string[] {
  return engines(root, built).flatMap(({ name, missing }) => (missing === undefined ? [] : [name]))
}
