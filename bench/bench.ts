// `npm run bench` measures everything and rewrites docs/benchmarks.md; `npm run bench -- local-call` prints one part, and
// with `--write` puts it in place of that section of the page.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installPrograms } from '../scripts/engines/packages.ts'
import { audit } from './audit.ts'
import { backends } from './backends.ts'
import { brokers } from './brokers.ts'
import { catalog } from './catalog.ts'
import { chain } from './chain.ts'
import { cliStart } from './cli-start.ts'
import { cluster } from './cluster.ts'
import { code } from './code.ts'
import { containers } from './containers.ts'
import { durableCode } from './durable-code.ts'
import { egress } from './egress.ts'
import { httpServer } from './http-server.ts'
import { installSize } from './install-size.ts'
import { localCall } from './local-call.ts'
import { mcp } from './mcp.ts'
import { microvm } from './microvm.ts'
import { openapiImport } from './openapi-import.ts'
import { pageText, withSections } from './page.ts'
import { installPeers } from './peers.ts'
import { policy } from './policy.ts'
import { endProgress } from './progress.ts'
import { recall } from './recall.ts'
import { remote } from './remote.ts'
import { type Section, sectionText } from './report.ts'
import { safeguards } from './safeguards.ts'
import { sandboxes } from './sandboxes.ts'
import { service, serviceDepth } from './service.ts'
import { stream } from './stream.ts'
import { temporal } from './temporal.ts'
import { tenants } from './tenants.ts'

const parts: ReadonlyMap<string, () => Promise<Section>> = new Map([
  ['local-call', localCall],
  ['catalog', catalog],
  ['recall', recall],
  ['chain', chain],
  ['stream', stream],
  ['cli-start', cliStart],
  ['install-size', installSize],
  ['backends', backends],
  ['safeguards', safeguards],
  ['policy', policy],
  ['openapi-import', openapiImport],
  ['sandboxes', sandboxes],
  ['containers', containers],
  ['cluster', cluster],
  ['microvm', microvm],
  ['remote', remote],
  ['temporal', temporal],
  ['code', code],
  ['durable-code', durableCode],
  ['egress', egress],
  ['http-server', httpServer],
  ['mcp', mcp],
  ['service', service],
  ['service-depth', serviceDepth],
  ['tenants', tenants],
  ['audit', audit],
  ['brokers', brokers],
])

await bench(process.argv.slice(2))

/** Measures the parts that are named, or all of them; a whole run rewrites the page, `--write` the sections measured. */
async function bench(args: readonly string[]): Promise<void> {
  const names = args.filter((name) => name !== '--write')
  const unknown = names.filter((name) => !parts.has(name))
  if (unknown.length > 0) {
    console.error(`bench: unknown part ${unknown.join(', ')}; choose from ${[...parts.keys()].join(', ')}.`)
    process.exitCode = 2
    return
  }
  installPrograms()
  installPeers()
  const started = performance.now()
  const sections: Section[] = []
  for (const [name, measure] of parts) {
    if (names.length > 0 && !names.includes(name)) continue
    const section = await measure()
    sections.push(section)
    endProgress()
    console.log(`\n${sectionText(section)}\n`)
  }
  console.error(`bench: done in ${((performance.now() - started) / 1_000).toFixed(0)} s.`)
  if (names.length > 0 && names.length === args.length) return
  const page = join(import.meta.dirname, '..', 'docs', 'benchmarks.md')
  writeFileSync(page, names.length === 0 ? pageText(sections) : withSections(readFileSync(page, 'utf8'), sections))
  console.error(`bench: wrote ${page}.`)
}
