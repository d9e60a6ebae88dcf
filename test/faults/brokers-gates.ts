import { setTimeout as sleep } from 'node:timers/promises'
import { codes, type ErrorCode } from '@gantry/contract'
import { type SomastackGatewayOptions, type SomastackResult, somastackGateway } from '../gateways/somastack.ts'
import { type StargazerGateway, type StargazerReply, stargazerGateway } from '../gateways/stargazer.ts'
import { type Plan, pooled } from './load.ts'
import { until } from './processes.ts'
import type { Site } from './site.ts'

export interface Asking {
  /** Tells a further request for the same call from the first; both have the key of the plan. */
  readonly again?: number
  /** How long to wait for an answer; 150 s. */
  readonly timeoutMs?: number
}

/** One of the gateways, which writes down what it sent once the broker has it, and all that it hears. */
export interface Gate {
  /** Sends it until the broker has it, and waits for the answer. */
  ask(plan: Plan, asking?: Asking): Promise<void>
  /** Sends it until the broker has it; its answer goes where nobody may read it, if so asked. */
  send(plan: Plan, replyTo?: string): Promise<void>
  /** The gateway itself, when it is the one of Redis. */
  readonly stargazer?: StargazerGateway
  close(): Promise<void>
}

const patienceMs = 150_000
/** Between the key of a request and its number, when it is not the first for its call. */
const mark = '~'

export async function redisGate(site: Site, redisUrl: string): Promise<Gate> {
  const tools = new Map<string, string>()
  const gateway = await stargazerGateway({
    redisUrl,
    onSent: ({ correlationId }) => note(site, correlationId, tools),
    onReply: (reply) => hear(site, String(reply.correlation_id), codeOfReply(reply), reply),
  })
  const seen = await until(async () => {
    await gateway.refresh()
    return gateway.catalog() !== undefined
  })
  if (!seen) throw new Error('No catalog was published.')
  const how = (plan: Plan, { again = 0, timeoutMs = patienceMs }: Asking = {}) => {
    const correlationId = named(plan, again, tools)
    return { correlationId, idemKey: plan.id, timeoutMs }
  }
  return {
    stargazer: gateway,
    ask: (plan, asking) => insist(() => gateway.call(...callOf(plan), how(plan, asking))),
    send: (plan, replyTo) => {
      const asked = { ...how(plan), ...(replyTo === undefined ? {} : { replyTo }) }
      return insist(() => gateway.send(...callOf(plan), asked))
    },
    close: () => gateway.close(),
  }
}

/** Its requests have one id that is key and correlation at once, so that one asked again is the same request. */
export async function kafkaGate(site: Site, options: SomastackGatewayOptions): Promise<Gate> {
  const tools = new Map<string, string>()
  const gateway = await somastackGateway({
    ...options,
    onSent: ({ eventId }) => note(site, eventId, tools),
    onResult: ({ headers: _, ...result }) => {
      hear(site, String(result.metadata.request_id), codeOfResult(result), result)
    },
  })
  const how = (plan: Plan, { timeoutMs = patienceMs }: Asking = {}) => ({ eventId: named(plan, 0, tools), timeoutMs })
  return {
    ask: (plan, asking) => insist(() => gateway.call(...callOf(plan), how(plan, asking))),
    send: (plan) => insist(() => gateway.send(...callOf(plan), how(plan))),
    close: () => gateway.close(),
  }
}

/** Asks all, so many at a time; then some of them once more, which must be answered, and in the same words. */
export async function driveGate(gate: Gate, plans: readonly Plan[], atOnce: number): Promise<void> {
  await pooled(plans, atOnce, (plan) => gate.ask(plan))
  await pooled(
    plans.filter((_, n) => n % 4 === 0),
    atOnce,
    (plan, n) => gate.ask(plan, { again: n % 2 }),
  )
}

function callOf({ id, tool, args = {} }: Plan): [string, object] {
  return [`fault:${tool}`, { id, ...args }]
}

function named({ id, tool }: Plan, again: number, tools: Map<string, string>): string {
  tools.set(id, tool)
  return again === 0 ? id : `${id}${mark}${again}`
}

function keyOf(request: string): string {
  return request.split(mark)[0] ?? request
}

function note(site: Site, request: string, tools: ReadonlyMap<string, string>): void {
  const id = keyOf(request)
  site.ledgers.requests.push({ id, tool: tools.get(id) ?? '' })
}

function hear(site: Site, request: string, code: string | undefined, reply: object): void {
  const status = code === undefined ? 'ok' : (codes[code as ErrorCode]?.status ?? 'failed')
  site.ledgers.replies.push({ id: keyOf(request), answers: request, status, code, text: JSON.stringify(reply) })
}

function codeOfReply({ result, code, status }: StargazerReply): string | undefined {
  return result === undefined ? (code ?? status) : undefined
}

function codeOfResult({ status, payload }: Omit<SomastackResult, 'headers'>): string | undefined {
  return status === 'success' ? undefined : String((payload.error as { code?: unknown } | undefined)?.code)
}

/** As a gateway does that was told that its broker is away. An answer that did not come is nothing to insist on. */
async function insist(work: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + patienceMs
  for (;;) {
    try {
      await work()
      return
    } catch (error) {
      const given = (error as Error).message.includes('has no answer') || (error as Error).message.includes('closed')
      if (given || performance.now() > end) throw error
      await sleep(50 + Math.random() * 50)
    }
  }
}
