import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JsonSchema } from '@gantry/contract'
import { compileSchema } from '@gantry/json-schema'
import { exampleOf } from './config-examples.ts'
import { type ConfigKeyInfo, configKeys } from './config-keys.ts'

const page = 'docs/reference/configuration.md'
const sinceFile = 'docs/reference/configuration-since.json'
const schemaFile = 'packages/gantry/gantry.config.schema.json'

/** The reference of the configuration, its schema for editors, and since when each key exists; and what is missing. */
export function configurationPages(root: string): {
  readonly pages: readonly (readonly [file: string, text: string])[]
  readonly faults: readonly string[]
} {
  const { keys: all, schema } = configKeys(root)
  const keys = folded(all)
  const versions = sinceOf(root, all)
  const faults = keys.flatMap(({ path, schema: own, fallback, description, same }) => {
    const example = exampleOf(path, own, fallback)
    const missing =
      description === '' && same === undefined
        ? [
            `The key ${path} has no description; write a comment above its member in the source, or a line in scripts/docs/reference/config-texts.ts`,
          ]
        : []
    if (example === undefined)
      return [...missing, `The key ${path} has no example; add one in scripts/docs/reference/config-examples.ts`]
    const issues = compileSchema(own as JsonSchema).issues(example)
    return [...missing, ...issues.map(({ path: at, message }) => `The example of ${path} is wrong: ${at} ${message}`)]
  })
  const grouped = Map.groupBy(Object.entries(versions), ([, version]) => version)
  const since = Object.fromEntries([...grouped].map(([version, list]) => [version, list.map(([path]) => path)]))
  return {
    pages: [
      [page, pageText(keys, versions)],
      [sinceFile, `${JSON.stringify(since, undefined, 2)}\n`],
      [schemaFile, `${JSON.stringify(schema, undefined, 2)}\n`],
    ],
    faults: [...new Set(faults)],
  }
}

interface ShownKey extends ConfigKeyInfo {
  /** The key whose keys are the same. */
  readonly same?: string
}

const fewKeys = 3

/** Leaves out the keys of an object that has the same keys as an earlier one. */
function folded(keys: readonly ConfigKeyInfo[]): readonly ShownKey[] {
  const seen = new Map<string, string>()
  const closed: string[] = []
  const shown: ShownKey[] = []
  for (const key of keys) {
    if (closed.some((path) => isBelow(key.path, path)) || key.path.includes('auth[]')) continue
    const inner = keys.filter(({ path }) => isBelow(path, key.path)).length
    const form = JSON.stringify(key.schema)
    const same = inner >= fewKeys ? seen.get(form) : undefined
    if (same !== undefined) closed.push(key.path)
    else seen.set(form, key.path)
    shown.push(same === undefined ? key : { ...key, same })
  }
  return shown
}

function isBelow(path: string, above: string): boolean {
  return path !== above && path.startsWith(above) && /^[.[ ]/.test(path.slice(above.length))
}

/** The version that each key came with: as recorded, and the present one for a new key. */
function sinceOf(root: string, keys: readonly ConfigKeyInfo[]): { readonly [path: string]: string } {
  const { version } = JSON.parse(readFileSync(join(root, 'packages/gantry/package.json'), 'utf8')) as {
    version: string
  }
  const file = join(root, sinceFile)
  const recorded = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { [version: string]: string[] }) : {}
  const known = new Map(Object.entries(recorded).flatMap(([each, paths]) => paths.map((path) => [path, each] as const)))
  return Object.fromEntries(keys.map(({ path }) => [path, known.get(path) ?? version]))
}

function pageText(keys: readonly ShownKey[], versions: { readonly [path: string]: string }): string {
  const sections = keys.filter(({ depth }) => depth === 0).map((key) => section(key, keys, versions))
  return `# Configuration reference

Every key of a configuration, with its type, default, an example, and the version that it came with; a key in a table that names no version came with the key above the table. [Configuration](../configuration.md) explains which file is read, and variables of the environment. The page is written by \`npm run docs -- --write\` from the schemas that check a configuration.

An editor checks a file and completes its keys by the same schema, which ships with the package:

\`\`\`yaml no-run
# yaml-language-server: $schema=./node_modules/gantry/gantry.config.schema.json
policy:
  default: allow
  rules: []
\`\`\`

In JSON the first key is \`"$schema": "./node_modules/gantry/gantry.config.schema.json"\`. In TypeScript the type is \`GantryConfig\`:

\`\`\`ts
import type { GantryConfig } from 'gantry'

export default { limits: { timeoutMs: 10_000 } } satisfies GantryConfig
\`\`\`

In a path, \`*\` stands for a name of your own and \`[]\` for each item of a list.

${sections.join('\n\n')}
`
}

function section(key: ShownKey, keys: readonly ShownKey[], versions: { readonly [path: string]: string }): string {
  const since = versions[key.path] ?? ''
  const inner = keys.filter(({ path }) => isBelow(path, key.path))
  const rows = inner.map((each) => row(each, versions[each.path] === since ? '' : ` · since ${versions[each.path]}`))
  const table = rows.length === 0 ? '' : `\n\n| key | meaning |\n| --- | --- |\n${rows.join('\n')}`
  return `## ${key.path}\n\n${sentence(key)}\n\n${valueText(key, ' · ')} · since ${since}${table}`
}

function row(key: ShownKey, since: string): string {
  return `| \`${key.path}\` | ${sentence(key).replaceAll('|', '\\|')}<br>${valueText(key, ' · ')}${since} |`
}

function sentence({ description, same }: ShownKey): string {
  const keys = same === undefined ? '' : `Its keys are those of \`${same}\`.`
  return [description, keys].filter((text) => text !== '').join(' ')
}

function valueText({ path, schema, type, fallback }: ShownKey, between: string): string {
  const example = JSON.stringify(exampleOf(path, schema, fallback)) ?? ''
  const none = fallback === 'none' ? 'no default' : fallback === 'required' ? 'required' : `default ${fallback}`
  return [type, none, `example \`${example}\``].join(between).replaceAll('|', '\\|')
}
