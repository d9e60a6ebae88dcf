import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLanguages } from '@gantry/sandbox/internal/languages/languages'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createSessions } from '@gantry/sandbox/internal/sessions/sessions'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { fakeRuntime } from '../../../sandbox/src/runtimes/fake.fixture.ts'
import type { Backend } from '../backends/backend.ts'
import type { Rule } from '../policies/rules.ts'
import { tool } from './pipeline.fixture.ts'

const weak = { kind: 'wasm', isolation: 'wasm', cost: 1 } as const
const strong = { kind: 'docker', isolation: 'container', cost: 3 } as const

function executor(rules: readonly Rule[], ...kinds: readonly (typeof weak | typeof strong)[]) {
  const runner = createRuntimes({ runtimes: kinds.map(fakeRuntime), pool: false })
  const runtimes = { ...runner, languages: createLanguages(), sessions: createSessions(runner) }
  return createExecutor({ tools: [...builtinTools(), tool(() => 1)], policy: { rules, default: 'allow' }, runtimes })
}

const code = { language: 'python', code: '1', profile: 'dev' }

test('a program runs in a runtime that meets the floor of the policy, and a weaker named runtime is refused', async () => {
  const gantry = executor([{ allow: 'code:*', floor: 'container', to: 'local' }], weak, strong)
  assert.deepEqual((await gantry.run('code:run', code)).runtime, { kind: 'docker', isolation: 'container' })
  const named = await gantry.run('code:run', { ...code, runtime: 'wasm' })
  assert.equal(named.error?.code, 'RUNTIME_UNAVAILABLE')
  const other = { principal: 'other', tenant: 'local', permissions: [] }
  assert.equal((await gantry.run('code:run', code, { identity: other })).runtime?.kind, 'wasm')
  await gantry.close()
})

test('a call is refused when no runtime meets the floor', async () => {
  const gantry = executor([{ allow: 'code:*', floor: 'container' }], weak)
  const { error, attempts } = await gantry.run('code:run', code)
  assert.equal(error?.code, 'RUNTIME_UNAVAILABLE')
  assert.match(error?.message ?? '', /at least container/)
  assert.equal(attempts, 1)
  await gantry.close()
})

test('a floor refuses a call that runs in no sandbox, and a floor of none allows it', async () => {
  const gantry = executor([{ allow: 'test:*', floor: 'wasm' }], weak)
  const { error } = await gantry.run('test:it')
  assert.deepEqual([error?.code, error?.retryable, error?.effect], ['RUNTIME_UNAVAILABLE', false, 'none'])
  assert.match(error?.message ?? '', /isolated at least as wasm by the policy/)
  await gantry.close()
  const open = executor([{ allow: 'test:*', floor: 'none' }], weak)
  assert.equal((await open.run('test:it')).status, 'ok')
  await open.close()
})

test('a backend that enforces the floor receives it', async () => {
  const floors: unknown[] = []
  const backend: Backend = {
    ...{ kind: 'pod', name: 'pod', enforces: ['floor'] },
    call: (_, { floor }) => void floors.push(floor),
  }
  const pod = tool(() => 1, { backends: [{ kind: 'pod' }] })
  const policy = { rules: [{ allow: '*', floor: 'kernel' }] } as const
  const gantry = createExecutor({ tools: [{ ...pod, run: undefined }], backends: [backend], policy })
  assert.equal((await gantry.run('test:it')).status, 'ok')
  assert.deepEqual(floors, ['kernel'])
  await gantry.close()
})
