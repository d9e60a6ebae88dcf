import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '@gantry/contract'
import type { Probe } from '@gantry/core/internal/runtimes/runtime'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { createLanguages } from '../languages/languages.ts'
import { createRuntimes } from '../runtimes/create-runtimes.ts'
import { fakeRuntime, works } from '../runtimes/fake.fixture.ts'
import { createSessions } from '../sessions/sessions.ts'

test('code and program backends pass the tenant to the sandbox for fair shares', async () => {
  const wasm = fakeRuntime({ kind: 'wasm', isolation: 'wasm' })
  const all = createRuntimes({ runtimes: [wasm], pool: false })
  const runtimes = { ...all, languages: createLanguages(), sessions: createSessions(all) }
  const gantry = createExecutor({ tools: builtinTools(), runtimes })
  const identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
  await gantry.run('code:run', { language: 'javascript', code: '1', runtime: 'wasm' }, { identity })
  await gantry.code('return 1', { language: 'javascript', identity })
  await gantry.close()
  const tenants = wasm.sandboxes.flatMap(({ jobs }) => jobs.map(({ tenant }) => tenant))
  assert.deepEqual(tenants, ['acme', 'acme'])
})

test('requests that no runtime can serve leave the circuit closed; failed probes open it, but not those of named runtimes', async () => {
  const identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
  const module = { language: 'wasm', code: 'main.wasm', files: { 'main.wasm': { base64: 'AGFzbQEAAAA=' } } }
  const code = { language: 'python', code: 'pass' }
  const down = { available: false, reason: 'The daemon does not respond.', remedy: 'Start it.' } as const
  const codesOf = async (docker: Probe, args: JsonObject): Promise<readonly (string | undefined)[]> => {
    const all = createRuntimes({
      runtimes: [
        fakeRuntime({ kind: 'wasm', isolation: 'wasm' }),
        fakeRuntime({ kind: 'docker', isolation: 'container', probe: () => docker }),
      ],
      pool: false,
    })
    const runtimes = { ...all, languages: createLanguages(), sessions: createSessions(all) }
    const gantry = createExecutor({ tools: builtinTools(), runtimes })
    const codes = new Set<string | undefined>()
    for (let count = 0; count < 12; count += 1) {
      const { error } = await gantry.run('code:run', args, { identity })
      codes.add(error?.code)
      if (args === module) assert.match(error?.message ?? '', /Set `profile: 'wasm'`/)
    }
    await gantry.close()
    return [...codes]
  }
  assert.deepEqual(await codesOf(works, module), ['RUNTIME_UNAVAILABLE'])
  assert.deepEqual(await codesOf(works, { ...code, language: 'ruby' }), ['RUNTIME_UNAVAILABLE'])
  assert.deepEqual(await codesOf(down, { ...code, runtime: 'docker' }), ['RUNTIME_UNAVAILABLE'])
  assert.deepEqual(await codesOf(down, code), ['RUNTIME_UNAVAILABLE', 'CIRCUIT_OPEN'])
})
