import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { runScenario, type Suite } from '../mcp-conformance/run-scenario.ts'

interface Campaign {
  readonly suite: Suite
  readonly title: string
  readonly revision?: string
  readonly scenarios: readonly string[]
}

const next: Suite = 'mcp-conformance-next'
const old: Suite = '@modelcontextprotocol/conformance'
const credentials = ['auth/client-credentials-jwt', 'auth/client-credentials-basic']

const campaigns: readonly Campaign[] = [
  ...['2025-11-25', '2026-07-28'].map((revision) => ({
    suite: next,
    title: `0.2.0-alpha.12, required for ${revision}`,
    revision,
    scenarios: [...required(revision), 'json-schema-2020-12-preservation'],
  })),
  {
    suite: next,
    title: '0.2.0-alpha.12, older revisions and extensions',
    scenarios: ['auth/2025-03-26-oauth-metadata-backcompat', 'auth/2025-03-26-oauth-endpoint-fallback', ...credentials],
  },
  {
    suite: old,
    title: '0.1.16',
    // Its auth/2025-03-26-oauth-metadata-backcompat serves metadata of another issuer, which RFC 8414 forbids;
    // the newer suite corrects that.
    scenarios: [
      ...required('2025-11-25'),
      'auth/2025-03-26-oauth-endpoint-fallback',
      'auth/resource-mismatch',
      'auth/offline-access-scope',
      'auth/offline-access-not-supported',
      ...credentials,
    ],
  },
]

for (const { suite, title, revision, scenarios } of campaigns) {
  describe(`the MCP client suite ${title}`, { concurrency: 2 }, () => {
    let checks = 0
    for (const name of scenarios) {
      test(name, { timeout: 120_000 }, async () => {
        const { ok, passed, failed, text } = await runScenario(suite, name, revision)
        assert.ok(ok && failed === 0 && passed > 0, text)
        checks += passed
      })
    }
    after(() => console.log(`${title}: ${scenarios.length} scenarios, ${checks} checks passed`))
  })
}

/** The scenarios that the suite requires of a client of a revision. */
function required(revision: string): readonly string[] {
  const file = join(import.meta.dirname, '..', '..', 'node_modules', next, 'requirements', `${revision}.yaml`)
  const [, list = ''] = /^client:\n((?: {2}- .+\n)+)/m.exec(readFileSync(file, 'utf8')) ?? []
  const names = [...list.matchAll(/^ {2}- (.+)$/gm)].map((match) => match[1] ?? '')
  assert.ok(names.length > 10, `no scenarios found in ${file}`)
  return names
}
