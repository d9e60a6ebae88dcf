import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EffectClass, Identity } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { sampleTool } from '../../../test/sample-tool.fixture.ts'
import { freshKey, redisForFile } from '../../brokers/transports/redis/redis.fixture.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import { heldClaim } from '../../storage/calls/claim.fixture.ts'
import { cachedCall, createResultCache, type ResultCache } from './result-cache.ts'

const file = redisForFile()
const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['a'] }

/** A tool that returns the number of its runs. */
function counting(
  cache: { ttlMs: number; scope?: 'tenant' } | undefined,
  effect: EffectClass,
  description = 'Counts.',
  policy?: ExecutorOptions['policy'],
) {
  let runs = 0
  const tool = sampleTool({
    name: 'count',
    description,
    effect,
    ...(cache === undefined ? {} : { cache }),
    run: () => {
      runs += 1
      return runs
    },
  })
  return { executor: createExecutor({ tools: [tool], ...(policy === undefined ? {} : { policy }) }), runs: () => runs }
}

function claimOf(executor: Executor, callId: string, identity = ada, digest?: string): Claim {
  const entry = executor.catalog.find('test:count')
  const call = {
    callId,
    kind: 'call' as const,
    identity,
    key: callId,
    fingerprint: 'f',
    tool: entry.id,
    effect: entry.tool.effect,
    payload: '{}',
    payloadBytes: 2,
    digest: digest ?? entry.digest,
  }
  return heldClaim(call)
}

function ask(cache: ResultCache | undefined, executor: Executor, claim: Claim, args: object = {}) {
  return cachedCall({ cache, executor, claim, args }, () =>
    executor.run(claim.call.tool, args, { callId: claim.callId, identity: claim.call.identity }),
  )
}

test('a repeated call gets the cached output, under its own id', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  const { executor, runs } = counting({ ttlMs: 60_000 }, 'read')
  const first = await ask(cache, executor, claimOf(executor, 'c-1'), { a: 1, b: 2 })
  const second = await ask(cache, executor, claimOf(executor, 'c-2'), { b: 2, a: 1 })
  assert.deepEqual([first.callId, first.output], ['c-1', 1])
  assert.deepEqual([second.callId, second.output, second.status, second.attempts], ['c-2', 1, 'ok', 1])
  assert.equal(runs(), 1)
  const other = await ask(cache, executor, claimOf(executor, 'c-3'), { a: 1, b: 3 })
  assert.equal(other.output, 2)
  await executor.close()
})

test('a cached result is for the same caller with the same permissions, or for the tenant if the tool allows it', async (t) => {
  const redis = await file.open(t)
  const others = [
    { ...ada, principal: 'bob' },
    { ...ada, permissions: ['a', 'b'] },
    { ...ada, tenant: 'other' },
  ]
  const own = counting({ ttlMs: 60_000 }, 'read')
  const cache = createResultCache({ redis, prefix: freshKey() })
  for (const identity of [ada, ...others, ada]) await ask(cache, own.executor, claimOf(own.executor, 'c', identity))
  assert.equal(own.runs(), 4)
  const shared = counting({ ttlMs: 60_000, scope: 'tenant' }, 'read')
  for (const identity of [ada, ...others]) await ask(cache, shared.executor, claimOf(shared.executor, 'c', identity))
  assert.equal(shared.runs(), 2)
  await Promise.all([own.executor.close(), shared.executor.close()])
})

test('a caller who is denied meanwhile gets no cached result, whichever caller it was cached for', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  const { executor, runs } = counting({ ttlMs: 60_000 }, 'read')
  assert.equal((await ask(cache, executor, claimOf(executor, 'c-1'))).output, 1)
  for (const effect of ['deny', 'ask', 'unavailable'] as const) {
    const stricter = executor.under({ policy: { decide: () => ({ effect, reason: 'not any more' }) } })
    const { status, output } = await ask(cache, stricter, claimOf(executor, 'c-2'))
    assert.notEqual(status, 'ok', effect)
    assert.equal(output, null, effect)
  }
  assert.equal((await ask(cache, executor, claimOf(executor, 'c-3'))).output, 1)
  assert.equal(runs(), 1)
  await executor.close()
})

test('a call pinned to another definition of the tool neither reads nor fills the cache', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  const { executor, runs } = counting({ ttlMs: 60_000 }, 'read')
  for (let n = 0; n < 2; n++) await ask(cache, executor, claimOf(executor, 'c', ada, 'sha256:old'))
  assert.equal(runs(), 2)
  await ask(cache, executor, claimOf(executor, 'c'))
  assert.equal(runs(), 3)
  const changed = counting({ ttlMs: 60_000 }, 'read', 'Counts otherwise.')
  await ask(cache, changed.executor, claimOf(changed.executor, 'c'))
  assert.equal(changed.runs(), 1)
  await Promise.all([executor.close(), changed.executor.close()])
})

test('a tool without a cache, and any tool without Redis, runs every time; only tools that read may have a cache', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  const silent = counting(undefined, 'read')
  const alone = counting({ ttlMs: 60_000 }, 'read')
  for (let n = 0; n < 2; n++) {
    await ask(cache, silent.executor, claimOf(silent.executor, 'c'))
    await ask(undefined, alone.executor, claimOf(alone.executor, 'c'))
  }
  assert.deepEqual([silent.runs(), alone.runs()], [2, 2])
  // The definition is refused; without that check nothing would be cached.
  assert.throws(() => counting({ ttlMs: 60_000 }, 'repeatable'), { code: 'TOOL_INVALID' })
  await Promise.all([silent.executor.close(), alone.executor.close()])
})

test('a call that needs approval, or that the policy now denies, gets no cached result', async (t) => {
  const cache = createResultCache({ redis: await file.open(t), prefix: freshKey() })
  const free = counting({ ttlMs: 60_000, scope: 'tenant' }, 'read')
  assert.equal((await ask(cache, free.executor, claimOf(free.executor, 'c-1'))).status, 'ok')
  assert.equal((await ask(cache, free.executor, claimOf(free.executor, 'c-2'))).output, 1)
  for (const [rule, code] of [
    [{ ask: '*' }, 'APPROVAL_REQUIRED'],
    [{ deny: '*' }, 'DENIED'],
  ] as const) {
    const strict = counting({ ttlMs: 60_000, scope: 'tenant' }, 'read', 'Counts.', { rules: [{ allow: '*' }, rule] })
    const refused = await ask(cache, strict.executor, claimOf(strict.executor, 'c-3'))
    assert.deepEqual([refused.error?.code, refused.output, strict.runs()], [code, null, 0])
    await strict.executor.close()
  }
  await free.executor.close()
})
