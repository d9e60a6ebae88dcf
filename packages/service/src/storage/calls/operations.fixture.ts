import fc from 'fast-check'
import { type StoreFixture, someCall, someEnding } from '../../conformance/call-store/samples.ts'
import { needLabel } from './call-facts.ts'
import type { AdmittedCall, Holder, Submitted } from './call-store.ts'

/** One random operation; numbers select a call, or one of all earlier claims. */
export type Operation =
  | { readonly do: 'submit'; readonly calls: readonly number[]; readonly claim: boolean }
  | { readonly do: 'claim'; readonly max: number; readonly how: number }
  | {
      readonly do: 'begin' | 'extend' | 'release' | 'delay' | 'ask' | 'need' | 'finish' | 'outcomes'
      readonly holders: readonly number[]
    }
  | { readonly do: 'reclaim'; readonly all: boolean }
  | { readonly do: 'cancel' | 'resume'; readonly call: number }
  | { readonly do: 'pass' | 'depth' | 'offer' }

/** Steps are long enough that the duration of the test does not matter; no other time is a multiple of it. */
const stepMs = 500_000
const options = { worker: 'w', leaseMs: 1_250_000, labels: { zone: 'a', disk: 'fast' } }
const slot = { key: 's', limit: 2 }
const need = 'math:add:2.0.0'
const beta = { identity: { principal: 'ada', tenant: 'beta', permissions: [] } }
const bob = { identity: { principal: 'bob', tenant: 'acme', permissions: [] } }
/** Claim options. */
const claims = [
  {},
  { labels: { zone: 'a', disk: 'fast', [needLabel(need)]: '' } },
  { busy: { acme: 1, other: 5 } },
  { busy: { beta: 1 }, shares: { beta: { weight: 2 } } },
  { shares: { acme: { concurrency: 2 }, '*': { concurrency: 1 } } },
  { shares: { acme: { concurrency: 3, principals: { '*': 1, bob: 2 } } } },
]

/** All kinds of calls; some are duplicates of others or in conflict with them. */
const calls: readonly AdmittedCall[] = [
  { priority: 1 },
  { key: 'k', callback: 'https://example.com/' },
  { key: 'k' },
  { key: 'k', fingerprint: 'other' },
  { deadlineMs: 750_000 },
  { delayMs: 750_000, deadlineMs: 1_750_000 },
  { delayMs: 250_000 },
  { slot },
  { slot, deadlineMs: 1_750_000 },
  { slot, delayMs: 750_000, priority: 2 },
  { slot, callback: 'https://example.com/' },
  { ...beta, slot },
  { ...beta, slot, delayMs: 750_000 },
  { slot: { key: 't', limit: 1 } },
  { slot: { key: 't', limit: 1 } },
  { placement: { zone: 'a' }, reply: { codec: 'native', transport: 'redis', to: 'answers', data: { id: '1' } } },
  { placement: { zone: 'b' } },
  { kind: 'chain' as const, tool: 'chain', deadlineMs: 250_000 },
  beta,
  beta,
  { ...beta, priority: 3 },
  { ...beta, placement: { zone: 'b' } },
  bob,
  bob,
  { ...bob, priority: 1 },
  bob,
].map((given, index) => someCall(`c${index}`, given))

const some = { maxLength: 4 }
const numbers = fc.array(fc.nat(40), { minLength: 1, ...some })

export const operations: fc.Arbitrary<readonly Operation[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('submit' as const), calls: numbers, claim: fc.boolean() }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('claim' as const),
        max: fc.integer({ min: 1, max: 4 }),
        how: fc.nat(claims.length - 1),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constantFrom(
          'begin' as const,
          'extend' as const,
          'release' as const,
          'delay' as const,
          'ask' as const,
          'need' as const,
          'finish' as const,
        ),
        holders: numbers,
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('outcomes' as const), holders: numbers }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('reclaim' as const), all: fc.boolean() }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constantFrom('cancel' as const, 'resume' as const), call: fc.nat(40) }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('pass' as const, 'depth' as const, 'offer' as const) }) },
  ),
  { minLength: 10, maxLength: 60, size: 'max' },
)

/** Runs the operations and returns their results, in a form that can be compared between stores. */
export async function live({ store, pass, records }: StoreFixture, steps: readonly Operation[]): Promise<unknown> {
  const holders: Holder[] = [{ callId: 'c0', fence: 1 }]
  const pick = (numbers: readonly number[]): Holder[] => numbers.map((n) => holders[n % holders.length] as Holder)
  const act = async (step: Operation): Promise<unknown> => {
    switch (step.do) {
      case 'submit': {
        const chosen = step.calls.map((n) => calls[n % calls.length] as AdmittedCall)
        const submitted = await store.submit(chosen, step.claim ? options : undefined)
        holders.push(...submitted.flatMap(claimOf))
        return submitted
      }
      case 'claim': {
        const claimed = await store.claim(step.max, { ...options, ...claims[step.how] })
        holders.push(...claimed)
        return claimed
      }
      case 'begin':
        return store.begin(pick(step.holders))
      case 'extend':
        return store.extend(unique(pick(step.holders)), options.leaseMs)
      case 'release':
        return store.release(pick(step.holders))
      case 'delay':
        return store.release(pick(step.holders).map((holder) => ({ ...holder, delayMs: 750_000 })))
      case 'ask':
        return store.release(pick(step.holders).map((holder) => ({ ...holder, asked: true, delayMs: 750_000 })))
      case 'need':
        return store.release(pick(step.holders).map((holder) => ({ ...holder, needs: need, delayMs: 1_750_000 })))
      case 'offer':
        return store.offer([need], 100)
      case 'finish':
        return store.finish(pick(step.holders).map((holder) => someEnding(holder)))
      case 'outcomes':
        return store.outcomes(pick(step.holders))
      case 'reclaim':
        return store.reclaim({ max: 100, leases: step.all ? 'all' : 'expired' })
      case 'cancel':
        return store.cancel((calls[step.call % calls.length] as AdmittedCall).callId, 'acme')
      case 'resume':
        return store.resume((calls[step.call % calls.length] as AdmittedCall).callId)
      case 'pass':
        return pass(stepMs)
      case 'depth':
        return store.depth(5)
    }
  }
  const answers: unknown[] = []
  for (const step of steps) answers.push([step, comparable(await act(step))])
  return { answers, records: comparable(await records()) }
}

function claimOf(submitted: Submitted): readonly Holder[] {
  return submitted.kind === 'new' && submitted.claim !== undefined ? [submitted.claim] : []
}

function unique(holders: readonly Holder[]): Holder[] {
  return [...new Map(holders.map((holder) => [`${holder.callId} ${holder.fence}`, holder])).values()]
}

/** Rounds times to the step, sorts unordered lists and removes duplicate ids. */
function comparable(value: unknown): unknown {
  const text = JSON.stringify(value, (key, part) => {
    if (key === 'deadlineMs' || key === 'nextMs') return Math.ceil(part / 250_000)
    if (key === 'startedAt' || key === 'text' || key === 'bytes') return undefined
    if (!Array.isArray(part)) return part
    if (part.every((item) => typeof item === 'string')) return [...new Set(part)].sort()
    return ['results', 'attempts', 'audit', 'outbox'].includes(key)
      ? part.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
      : part
  })
  return text === undefined ? undefined : JSON.parse(text)
}

function placeOf({ callId, fence, phase }: { callId: string; fence?: number; phase?: string }): string {
  return `${callId} ${fence} ${phase}`
}
