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
import { mediaType } from '../artifacts/media-type.ts'
import type { BackendContext } from '../backends/backend.ts'
import type { InnerCalls, ProgramNesting } from '../backends/inner-calls.ts'
import type { InnerNames, InnerOutcome, WriteBack } from '../backends/program-journal.ts'
import type { GatewayRequest } from './gateway-request.ts'
import type { Budget, SetLimits } from './limits.ts'

/** What doing needs of the program's call. */
interface Performer {
  readonly context: BackendContext
  readonly inner: InnerCalls
  readonly budget: Budget
  readonly limits: SetLimits
  readonly reporter: Reporter
  /** Aborted when the program ends. */
  readonly signal: AbortSignal
  /** Takes what inner calls write back. */
  readonly writeBack: WriteBack
}

const longestTimer = 2_147_483_647
const mostReadBytes = 16_777_216
const mostExamples = 20

/** Does what a program asks for, in the name of its caller. What goes wrong is an outcome, not a rejection. */
export async function perform(
  performer: Performer,
  number: number,
  asked: GatewayRequest,
  names: InnerNames = {},
): Promise<InnerOutcome> {
  const place = placeIn(performer.budget.place, performer.context.callId)
  // A call goes the shortest way, because most questions are calls, and each promise between costs them a twentieth.
  if (asked.kind === 'call') {
    const result = await call(performer, number, asked, names, place)
    performer.reporter.called(number, asked.tool, result, false)
    return place.calls === 0 ? { kind: 'result', result } : { kind: 'result', result, calls: place.calls }
  }
  const outcome = await performOther({ ...performer, place }, number, asked, names)
  return place.calls === 0 ? outcome : { ...outcome, calls: place.calls }
}

/** The place of one question, which counts its calls. */
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

/** A performer for one question, whose calls are counted by its place. */
type Placed = Performer & { readonly place: ProgramNesting }

async function performOther(
  performer: Placed,
  number: number,
  asked: Exclude<GatewayRequest, { kind: 'call' }>,
  names: InnerNames,
): Promise<InnerOutcome> {
  try {
    return await other(performer, number, asked, names)
  } catch (error) {
    performer.signal.throwIfAborted()
    if (!ToolError.is(error)) throw error
    return { kind: 'error', error: shown(error) }
  }
}

function call(
  { context, inner, signal, writeBack }: Performer,
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
    writeBack: names.writeBack ?? writeBack,
    program: names.program,
  })
}

async function other(
  performer: Placed,
  number: number,
  asked: Exclude<GatewayRequest, { kind: 'call' }>,
  names: InnerNames,
): Promise<InnerOutcome> {
  const { context, inner, signal } = performer
  const { identity } = context
  switch (asked.kind) {
    case 'chain':
      return chainOutcome(await runChain(performer, number, asked, names))
    case 'search': {
      const { items } = await inner.search(asked.words, { identity, signal, limit: asked.limit })
      return value(items)
    }
    case 'describe':
      return value(await inner.describe(asked.tool, { identity, level: asked.level }))
    case 'examples': {
      const doc = await inner.describe(asked.tool, { identity, level: 'full', examples: mostExamples })
      return value(doc.examples ?? [])
    }
    case 'put':
      return value(await keep(context, asked, signal))
    case 'get':
      return value(await read(context, asked.id, signal))
    case 'sleep':
      await delay(Math.min(asked.ms, longestTimer), undefined, { signal })
      return value(null)
    case 'wrong':
      throw asked.error
  }
}

async function runChain(
  { context, inner, place, limits, reporter, signal, writeBack }: Placed,
  number: number,
  { steps, input }: Extract<GatewayRequest, { kind: 'chain' }>,
  names: InnerNames,
): Promise<ChainResult> {
  return await inner.chain(steps, {
    identity: context.identity,
    signal,
    traceparent: context.traceparent,
    writeBack,
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

/** Also tells of the calls of a chain that are answered without being made. */
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

/** Where the host keeps files they belong to the result; else they are kept as `files:*` keeps them. */
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

/** A file as JSON can carry it: its text where it is one. */
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
  const facts =
    details === undefined ? {} : { details: JSON.parse(JSON.stringify(details)) as ErrorInfo['details'] & object }
  return { code, message, stage, retryable, effect, ...facts }
}

/** How many calls were made within what came of a question, as far as it says; the question itself is not among them. */
export function callsIn(outcome: InnerOutcome): number {
  if (outcome.calls !== undefined) return outcome.calls
  const program = outcome.kind === 'result' ? outcome.result.program : undefined
  return program === undefined ? 0 : program.calls.length + (program.omitted ?? 0)
}

/** Collects what a program does besides its output. */
export interface Reporter {
  called(number: number, asked: string, result: Result, recalled: boolean): void
  report(printed: string, truncated: boolean): ProgramReport
}

const mostCalls = 1_000

export function createReporter(language: ProgramLanguage): Reporter {
  const calls: ProgramCall[] = []
  let omitted = 0
  return {
    called(number, asked, { callId, tool, status, error, startedAt, durationMs }, recalled) {
      if (calls.length >= mostCalls) {
        omitted += 1
        return
      }
      const code = error === undefined ? {} : { code: error.code }
      const mark = recalled ? { recalled: true as const } : {}
      calls.push({ number, callId, tool: tool?.id ?? asked, status, ...code, startedAt, durationMs, ...mark })
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
