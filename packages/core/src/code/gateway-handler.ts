import { setTimeout as delay } from 'node:timers/promises'
import {
  type ChainResult,
  type ErrorInfo,
  type Json,
  type ProgramCall,
  type ProgramLanguage,
  type ProgramReport,
  type Result,
  ToolError,
} from '@gantry/contract'
import { mediaType } from '../artifacts/artifact.ts'
import type { BackendContext, InnerCalls, ProgramNesting } from '../backends/backend.ts'
import type { EffectSink, InnerNames, InnerOutcome } from '../backends/program-journal.ts'
import type { GatewayRequest } from './gateway-request.ts'
import type { Budget, SetLimits } from './limits.ts'

/** The parts of the program's call that its requests need. */
interface Performer {
  readonly context: BackendContext
  readonly inner: InnerCalls
  readonly budget: Budget
  readonly limits: SetLimits
  readonly reporter: Reporter
  /** Aborted when the program ends. */
  readonly signal: AbortSignal
  /** Receives the effects of inner calls. */
  readonly effectSink: EffectSink
}

const longestTimer = 2_147_483_647
const mostReadBytes = 16_777_216
const mostExamples = 20

/** Performs a gateway request as the caller of the program. A failure is an outcome, not a rejection. */
export async function perform(
  performer: Performer,
  number: number,
  request: GatewayRequest,
  names: InnerNames = {},
): Promise<InnerOutcome> {
  const place = placeIn(performer.budget.place, performer.context.callId)
  // Calls take the shortest path: most requests are calls, and each promise between costs them 5 %.
  if (request.kind === 'call') {
    const result = await call(performer, number, request, names, place)
    performer.reporter.called(number, request.tool, result, false)
    return place.calls === 0 ? { kind: 'result', result } : { kind: 'result', result, calls: place.calls }
  }
  const outcome = await performOther({ ...performer, place }, number, request, names)
  return place.calls === 0 ? outcome : { ...outcome, calls: place.calls }
}

/** The call scope of one request, which counts its calls. */
function placeIn(
  { depthLeft, takeCall, unattended }: ProgramNesting,
  within: string,
): ProgramNesting & { readonly calls: number } {
  const place = {
    depthLeft,
    within,
    unattended,
    calls: 0,
    takeCall(count = 1) {
      place.calls += count
      takeCall(count)
    },
  }
  return place
}

/** A performer for one request, whose calls are counted by its call scope. */
type Placed = Performer & { readonly place: ProgramNesting }

async function performOther(
  performer: Placed,
  number: number,
  request: Exclude<GatewayRequest, { kind: 'call' }>,
  names: InnerNames,
): Promise<InnerOutcome> {
  try {
    return await other(performer, number, request, names)
  } catch (error) {
    performer.signal.throwIfAborted()
    if (!ToolError.is(error)) throw error
    return { kind: 'error', error: shown(error) }
  }
}

function call(
  { context, inner, signal, effectSink }: Performer,
  number: number,
  { tool, args }: Extract<GatewayRequest, { kind: 'call' }>,
  names: InnerNames,
  place: ProgramNesting,
): Promise<Result> {
  return inner.run(tool, args, {
    identity: context.identity,
    signal,
    traceparent: context.traceparent,
    place,
    callId: names.callId ?? `${context.callId}.${number}`,
    idempotencyKey: names.idempotencyKey,
    effectSink: names.effectSink ?? effectSink,
    program: names.program,
  })
}

async function other(
  performer: Placed,
  number: number,
  request: Exclude<GatewayRequest, { kind: 'call' }>,
  names: InnerNames,
): Promise<InnerOutcome> {
  const { context, inner, signal } = performer
  const { identity } = context
  switch (request.kind) {
    case 'chain':
      return chainOutcome(await runChain(performer, number, request, names))
    case 'search': {
      const { items } = await inner.search(request.words, { identity, signal, limit: request.limit })
      return value(items)
    }
    case 'describe':
      return value(await inner.describe(request.tool, { identity, level: request.level }))
    case 'examples': {
      const doc = await inner.describe(request.tool, { identity, level: 'full', examples: mostExamples })
      return value(doc.examples ?? [])
    }
    case 'put':
      return value(await keep(context, request, signal))
    case 'get':
      return value(await read(context, request.id, signal))
    case 'sleep':
      await delay(Math.min(request.ms, longestTimer), undefined, { signal })
      return value(null)
    case 'wrong':
      throw request.error
  }
}

async function runChain(
  { context, inner, place, limits, reporter, signal, effectSink }: Placed,
  number: number,
  { steps, input }: Extract<GatewayRequest, { kind: 'chain' }>,
  names: InnerNames,
): Promise<ChainResult> {
  return await inner.chain(steps, {
    identity: context.identity,
    signal,
    traceparent: context.traceparent,
    effectSink,
    place,
    chainId: names.callId ?? `${context.callId}.${number}`,
    input,
    limits: { steps: limits.chainSteps, parallel: limits.parallel },
    around: listed(names, (tool, result, recalled) => {
      place.takeCall(1 + callsIn({ kind: 'result', result }))
      reporter.called(number, tool, result, recalled)
    }),
    onCall: (result) => reporter.called(number, result.tool?.id ?? '', result, false),
  })
}

/** Reports the calls of a chain that the middleware answers without making them. */
function listed(
  { around, recalls }: InnerNames,
  undone: (tool: string, result: Result, recalled: boolean) => void,
): InnerNames['around'] {
  if (around === undefined) return undefined
  return async (step, call) => {
    let made = false
    const result = await around(step, (names) => {
      made = true
      return call(names)
    })
    if (!made) undone(step.tool, result, recalls?.(step) ?? false)
    return result
  }
}

function chainOutcome({ output, error }: ChainResult): InnerOutcome {
  return error === undefined ? { kind: 'value', value: output } : { kind: 'error', error }
}

/** A host that stores files attaches them to the result; otherwise they are stored like those of `files:*`. */
async function keep(
  context: BackendContext,
  { name, content, mimeType }: Extract<GatewayRequest, { kind: 'put' }>,
  signal: AbortSignal,
): Promise<object> {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content
  const file = { name, content: bytes, mimeType: mimeType ?? mediaType(name, bytes) }
  if (context.keepsFiles) return await context.attach(file)
  const { identity, callId, fence } = context
  return await context.artifacts.put(file, { identity, callId, fence }, signal)
}

/** A file as JSON: text, or base64 for other content. */
async function read({ artifacts, identity }: BackendContext, id: string, signal: AbortSignal): Promise<object> {
  const { artifact, content } = await artifacts.read(id, identity, { start: 0, end: mostReadBytes }, signal)
  const { name, mimeType, bytes } = artifact
  if (bytes > mostReadBytes) {
    throw new ToolError('RESULT_TOO_LARGE', `The file has ${bytes} bytes; a program can read ${mostReadBytes}.`)
  }
  const text = utf8(content)
  const body = text === undefined ? { base64: Buffer.from(content).toString('base64') } : { content: text }
  return { id, name, mimeType, bytes, ...body }
}

function utf8(content: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content)
  } catch {
    return undefined
  }
}

function value(of: unknown): InnerOutcome {
  return { kind: 'value', value: of as Json }
}

function shown({ code, message, stage, retryable, effect, details }: ToolError): ErrorInfo {
  const facts = details === undefined ? {} : { details: JSON.parse(JSON.stringify(details)) }
  return { code, message, stage, retryable, effect, ...facts }
}

/** The number of calls that the outcome of a request reports, without the request itself. */
export function callsIn(outcome: InnerOutcome): number {
  if (outcome.calls !== undefined) return outcome.calls
  const program = outcome.kind === 'result' ? outcome.result.program : undefined
  return program === undefined ? 0 : program.calls.length + (program.omitted ?? 0)
}

/** Collects the calls of a program for its report. */
export interface Reporter {
  called(number: number, id: string, result: Result, recalled: boolean): void
  report(printed: string, truncated: boolean): ProgramReport
}

const mostCalls = 1_000

export function createReporter(language: ProgramLanguage): Reporter {
  const calls: ProgramCall[] = []
  let omitted = 0
  return {
    called(number, id, { callId, tool, status, error, startedAt, durationMs }, recalled) {
      if (calls.length >= mostCalls) {
        omitted += 1
        return
      }
      const code = error === undefined ? {} : { code: error.code }
      const mark = recalled ? { recalled: true as const } : {}
      calls.push({ number, callId, tool: tool?.id ?? id, status, ...code, startedAt, durationMs, ...mark })
    },
    report: (printed, truncated) => ({
      language,
      printed,
      ...(truncated ? { truncated: true as const } : {}),
      calls: calls.toSorted((a, b) => a.number - b.number),
      ...(omitted === 0 ? {} : { omitted }),
    }),
  }
}
