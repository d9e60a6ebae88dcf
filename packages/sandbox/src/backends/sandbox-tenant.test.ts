import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { createLanguages } from '../languages/languages.ts'
import { createRuntimes } from '../runtimes/create-runtimes.ts'
import { fakeRuntime } from '../runtimes/fake.fixture.ts'
import { createSessions } from '../sessions/sessions.ts'

test('a sandbox learns for which tenant it runs code and programs, so that tenants can take turns in it', async () => {
  const wasm = fakeRuntime({ kind: 'wasm', isolation: 'wasm' })
  const door = createRuntimes({ runtimes: [wasm], pool: false })
  const runtimes = { ...door, languages: createLanguages(), sessions: createSessions(door) }
  const gantry = createExecutor({ tools: builtinTools(), runtimes })
  const identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
  await gantry.run('code:run', { language: 'javascript', code: '1', runtime: 'wasm' }, { identity })
  await gantry.code('return 1', { language: 'javascript', identity })
  await gantry.close()
  const tenants = wasm.sandboxes.flatMap(({ jobs }) => jobs.map(({ tenant }) => tenant))
  assert.deepEqual(tenants, ['acme', 'acme'])
})
