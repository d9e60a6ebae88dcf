import { setTimeout as sleep } from 'node:timers/promises'
import { codes, type ErrorCode } from '@gantry/contract'
import { type SomastackGatewayOptions, type SomastackResult, somastackGateway } from '../gateways/somastack.ts'
import { type StargazerGateway, type StargazerReply, stargazerGateway } from '../gateways/stargazer.ts'
import { type Plan, pooled } from './load.ts'
import { until } from './processes.ts'
import type { Site } from './site.ts'

export interface Asking {
  /** Numbers a further request for the same call; it has the idempotency key of the plan too. */
  readonly again?: number
  /** How long to wait for the reply; 150 s. */
  readonly timeoutMs?: number
}

/** A gateway that records each request once the broker has it, and every reply. */
export interface Gate {
  /** Retries until the broker has the request, and waits for the reply. */
  ask(plan: Plan, asking?: Asking): Promise<void>
  /** Retries until the broker has the request; `replyTo` names another reply stream. */
  send(plan: Plan, replyTo?: string): Promise<void>
  /** The Stargazer gateway, on Redis only. */
  readonly stargazer?: StargazerGateway
  close(): Promise<void>
}

const patienceMs = 150_000
/** Separates the key of a request from its number, if it is not the first for its call. */
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

/** A SomaStack request has one id as key and correlation, so that a repeat is the same request. */
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

/** Sends all requests, `atOnce` at a time, then repeats every fourth, which must get the same reply. */
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

/** Retries while the broker is unavailable, as a gateway does; a missing reply is an error. */
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
