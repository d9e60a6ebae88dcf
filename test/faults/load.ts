import { setTimeout as sleep } from 'node:timers/promises'
import type { CallOptions } from '@gantry/client'
import { type JsonObject, type Result, ToolError } from '@gantry/contract'
import type { Site } from './site.ts'

/** One request of the producer; its id is its idempotency key. */
export interface Plan {
  readonly id: string
  readonly tool: string
  readonly args?: JsonObject
  readonly options?: CallOptions
  /** Submits first and waits for the outcome in a second request. */
  readonly apart?: boolean
}

/** The timeout of a request, after which it is repeated: its process may be stopped for good. */
const patienceMs = 8_000

/** Retries a request until its outcome is received, and records request and outcome in the ledgers. */
export async function send(site: Site, plan: Plan, limitMs = 400_000): Promise<Result> {
  const { id, tool, args = {}, options = {} } = plan
  const until = performance.now() + limitMs
  const name = `fault:${tool}`
  const how = (): CallOptions => ({
    idempotencyKey: id,
    cancelOnAbort: false,
    ...options,
    signal: AbortSignal.timeout(patienceMs),
  })
  if (plan.apart === true) {
    const { callId } = await persist(() => site.client.submit(name, { id, ...args }, how()), until)
    site.ledgers.requests.push({ id, tool, callId })
  }
  const result = await persist(() => site.client.call(name, { id, ...args }, how()), until)
  site.ledgers.requests.push({ id, tool, callId: result.callId })
  hear(site, id, result)
  return result
}

export function hear(site: Site, id: string, { callId, status, error }: Result): void {
  site.ledgers.replies.push({ id, callId, status, code: error?.code })
}

/** Retries while no process can be reached. */
export async function persist<T>(work: () => Promise<T>, until = performance.now() + 60_000): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      // A request aborted by our own timeout fails as CANCELLED.
      const again = ToolError.is(error) && (error.retryable || error.code === 'CANCELLED')
      if (!again || performance.now() > until) throw error
      await sleep(20 + Math.random() * 80)
    }
  }
}

/** Sends all requests, `atOnce` at a time, then repeats every fourth. */
export async function drive(site: Site, plans: readonly Plan[], atOnce: number): Promise<Result[]> {
  const results = await pooled(plans, atOnce, (plan) => send(site, plan))
  await pooled(
    plans.filter((_, n) => n % 4 === 0),
    atOnce,
    (plan) => send(site, plan),
  )
  return results
}

export async function pooled<T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T, place: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < items.length) {
      const place = next++
      results[place] = await work(items[place] as T, place)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane))
  return results
}

const tools = ['read', 'keyed', 'once', 'reconcilable', 'repeatable', 'alone']

/** Calls of every effect class that take up to `longestMs`, before and after their effect. */
export function mixed(count: number, random: () => number, longestMs: number, prefix = 'c'): Plan[] {
  return Array.from({ length: count }, (_, n) => ({
    id: `${prefix}${n}`,
    tool: tools[n % tools.length] as string,
    apart: random() < 0.5,
    args: { beforeMs: Math.floor((random() * longestMs) / 2), afterMs: Math.floor((random() * longestMs) / 2) },
  }))
}
