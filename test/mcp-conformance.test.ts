import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { runScenario } from './mcp-conformance/run-scenario.ts'

/** One scenario of each part of the protocol; `test/soak/mcp-conformance.soak.ts` has all of them. */
const scenarios: { readonly [revision: string]: readonly string[] } = {
  '2025-11-25': ['initialize', 'sse-retry', 'auth/scope-step-up'],
  '2026-07-28': [
    'tools_call',
    'sep-2322-client-request-state',
    'http-invalid-tool-headers',
    'json-schema-ref-no-deref',
    'auth/iss-wrong-issuer',
  ],
}

for (const [revision, names] of Object.entries(scenarios)) {
  describe(`the MCP backend conforms to ${revision}`, { concurrency: 2 }, () => {
    for (const name of names) {
      test(name, { timeout: 60_000 }, async (context) => {
        const { ok, passed, failed, text } = await runScenario('mcp-conformance-next', name, revision)
        assert.ok(ok && failed === 0 && passed > 0, text)
        context.diagnostic(`${passed} checks passed`)
      })
    }
  })
}
