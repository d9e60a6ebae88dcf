// `npm run bench` measures everything and rewrites docs/benchmarks.md; `npm run bench -- local-call` prints one part.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { audit } from './audit.ts'
import { backends } from './backends.ts'
import { brokers } from './brokers.ts'
import { catalog } from './catalog.ts'
import { chain } from './chain.ts'
import { cliStart } from './cli-start.ts'
import { code } from './code.ts'
import { door } from './door.ts'
import { durableCode } from './durable-code.ts'
import { egress } from './egress.ts'
import { installSize } from './install-size.ts'
import { localCall } from './local-call.ts'
import { mcp } from './mcp.ts'
import { openapiImport } from './openapi-import.ts'
import { pageText } from './page.ts'
import { installPeers } from './peers.ts'
import { policy } from './policy.ts'
import { endProgress } from './progress.ts'
import { recall } from './recall.ts'
import { type Section, sectionText } from './report.ts'
import { safeguards } from './safeguards.ts'
import { sandboxes } from './sandboxes.ts'
import { service, serviceDepth } from './service.ts'
import { stream } from './stream.ts'
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
  ['code', code],
  ['durable-code', durableCode],
  ['egress', egress],
  ['door', door],
  ['mcp', mcp],
  ['service', service],
  ['service-depth', serviceDepth],
  ['tenants', tenants],
  ['audit', audit],
  ['brokers', brokers],
])

await bench(process.argv.slice(2))

/** Measures the parts that are named, or all of them; only a whole run rewrites the page. */
async function bench(names: readonly string[]): Promise<void> {
  const unknown = names.filter((name) => !parts.has(name))
  if (unknown.length > 0) {
    console.error(`bench: there is no part ${unknown.join(', ')}; there are ${[...parts.keys()].join(', ')}.`)
    process.exitCode = 2
    return
  }
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
  if (names.length > 0) return
  const page = join(import.meta.dirname, '..', 'docs', 'benchmarks.md')
  writeFileSync(page, pageText(sections))
  console.error(`bench: wrote ${page}.`)
}
