import type { Isolation, Json, JsonObject, SandboxLimit, SandboxLimits } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { parseJson } from '@gantry/core/internal/json/parse'
import { defaultJsonLimits } from '@gantry/core/internal/json/plain'
import { anyText, flag, number, oneOf, text, whole } from '@gantry/core/internal/options/option'
import { optionsCheck } from '@gantry/core/internal/options/options'
import {
  isIsolation,
  isolations,
  type Outcome,
  type ProgramFault,
  type ProgramMessage,
  type ProgramRequest,
  type ProgramResponse,
  type SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import { limitNames } from '@gantry/sandbox/internal/selection/limits'

/** Changes when one side would no longer understand the other. */
export const protocolVersion = 1

/** A spec as it crosses: without a network, because egress stays with the side that has the policy, and without packages, because a host has its own. */
export type WireSpec = Omit<SandboxSpec, 'network' | 'dial' | 'packages'>

const amounts = Object.fromEntries(limitNames.map((name) => [name, whole(0)]))
const specCheck = optionsCheck<WireSpec>({
  members: {
    language: text(64),
    limits: { type: 'object', properties: amounts, required: [...limitNames], additionalProperties: false },
    session: flag,
    deterministic: {
      type: 'object',
      properties: { seed: number(0), nowMs: number(0) },
      required: ['seed', 'nowMs'],
      additionalProperties: false,
    },
    strict: flag,
    gateway: flag,
    floor: oneOf(...isolations),
  },
  required: ['limits'],
})

export function isWireSpec(value: unknown): value is WireSpec {
  return specCheck.fits(value)
}

/** The state that a started server reports. */
export interface HostState {
  readonly protocol: number
  readonly instance: string
  readonly version: string
  /** Sandboxes that are open, and how many may be. */
  readonly open: number
  readonly capacity: number
  readonly draining: boolean
  /** How long it keeps a sandbox without a heartbeat. */
  readonly keepMs: number
}

/** One runtime of a host, as far as a client must know it to select a host. */
export interface OfferedRuntime {
  readonly kind: string
  readonly isolation: Isolation
  readonly version: string
  readonly startMs: number
  readonly limits: { readonly [Limit in SandboxLimit]?: string }
  readonly attacks: readonly string[]
  /** It runs commands and scripts. */
  readonly commands: boolean
  /** Every limit is the kernel's, as `hardened` requires. */
  readonly strict: boolean
  readonly languages: readonly string[]
  readonly sessions: readonly string[]
  readonly gateways: readonly string[]
  readonly deterministic: readonly string[]
}

/** The answer to an opened sandbox. */
export interface OpenedState {
  readonly kind: string
  readonly isolation: Isolation
  readonly image?: string
}

/** The outcome of a run without its output and files, which come in frames of their own. */
export interface WireOutcome extends Omit<Outcome, 'stdout' | 'stderr' | 'files'> {
  readonly stdout: { readonly total: number; readonly truncated: boolean }
  readonly stderr: { readonly total: number; readonly truncated: boolean }
  /** Whether the sandbox can run another program. */
  readonly alive: boolean
}

const jsonLimits = { ...defaultJsonLimits, bytes: 67_108_864, depth: 80, nodes: 1_000_000 }

/** JSON of the other side; throws JsonError. */
export function readJson(bytes: Uint8Array): Json {
  return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes), jsonLimits)
}

export function jsonBytes(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}

/** Every reader below returns undefined for a document of another form. */
export function readHostState(value: unknown): HostState | undefined {
  if (!isObject(value)) return undefined
  const { protocol, instance, version, open, capacity, draining, keepMs } = value
  if (!isCount(protocol) || !isCount(open) || !isCount(capacity) || typeof draining !== 'boolean' || !isAmount(keepMs))
    return undefined
  if (!isText(instance) || !/^[\w-]{16}$/.test(instance) || !isText(version)) return undefined
  return { protocol, instance, version: version.slice(0, 64), open, capacity, draining, keepMs }
}

export function readOffers(value: unknown): readonly OfferedRuntime[] | undefined {
  if (!isObject(value) || !Array.isArray(value.runtimes) || value.runtimes.length > 32) return undefined
  const offers = value.runtimes.map(readOffer)
  return offers.every((one) => one !== undefined) ? offers : undefined
}

function readOffer(value: unknown): OfferedRuntime | undefined {
  if (!isObject(value)) return undefined
  const { kind, isolation, version, startMs, limits, commands, strict } = value
  if (!isName(kind) || !isIsolation(isolation) || !isText(version) || !isAmount(startMs)) return undefined
  if (typeof commands !== 'boolean' || typeof strict !== 'boolean') return undefined
  const [languages, sessions, gateways, deterministic, attacks] = [
    textsOf(value.languages),
    textsOf(value.sessions),
    textsOf(value.gateways),
    textsOf(value.deterministic),
    textsOf(value.attacks),
  ]
  const lists = { languages, sessions, gateways, deterministic, attacks }
  return {
    kind,
    isolation,
    version: version.slice(0, 128),
    startMs,
    commands,
    strict,
    limits: mechanisms(limits),
    ...lists,
  }
}

export function readOpened(value: unknown): OpenedState | undefined {
  if (!isObject(value)) return undefined
  const { kind, isolation, image } = value
  if (!isName(kind) || !isIsolation(isolation)) return undefined
  return { kind, isolation, ...(isText(image) ? { image: image.slice(0, 128) } : {}) }
}

export function readMessage(value: Json): ProgramMessage | undefined {
  if (!isObject(value)) return undefined
  const { kind, progress, total, message } = value
  if (kind === 'log' && isText(message)) return { kind, message }
  if (kind !== 'progress' || typeof progress !== 'number') return undefined
  return {
    kind,
    progress,
    ...(typeof total === 'number' ? { total } : {}),
    ...(isText(message) ? { message } : {}),
  }
}

/** The gateway requests of one quiescence. */
export interface Asked {
  readonly questions: readonly ProgramRequest[]
  readonly working: boolean
}

export function readAsked(value: Json): Asked | undefined {
  if (!isObject(value) || !Array.isArray(value.questions) || typeof value.working !== 'boolean') return undefined
  const questions = value.questions.map((one): ProgramRequest | undefined => {
    if (!isObject(one)) return undefined
    const { number: place, kind, text: said } = one
    return isCount(place) && isText(kind) && isText(said) ? { number: place, kind, text: said } : undefined
  })
  return questions.every((one) => one !== undefined) ? { questions, working: value.working } : undefined
}

/** Gateway responses, the first of them with its place among all responses of the run. */
export interface Answers {
  readonly first: number
  readonly answers: readonly ProgramResponse[]
}

const answersCheck = optionsCheck<Answers>({
  members: {
    first: whole(1),
    answers: {
      type: 'array',
      items: {
        type: 'object',
        properties: { number: whole(1), ok: flag, text: anyText, nowMs: number(0) },
        required: ['number', 'ok', 'text'],
        additionalProperties: false,
      },
    },
  },
  required: ['first', 'answers'],
})

export function isAnswers(value: unknown): value is Answers {
  return answersCheck.fits(value)
}

export function readOutcome(value: Json): WireOutcome | undefined {
  if (!isObject(value)) return undefined
  const { exit, lost, skipped, usage, enforced, hit, fault, alive } = value
  const [stdout, stderr, ended] = [readStream(value.stdout), readStream(value.stderr), readExit(exit)]
  if (stdout === undefined || stderr === undefined || ended === undefined || !isObject(usage)) return undefined
  if (!Array.isArray(skipped) || skipped.length > 4_096 || !isAmount(usage.wallMs)) return undefined
  const { wallMs, cpuMs, memoryPeakBytes } = usage
  return {
    exit: ended,
    stdout,
    stderr,
    ...('value' in value ? { value: value.value } : {}),
    ...(isObject(lost) && isCount(lost.lines) && isCount(lost.keys)
      ? { lost: { lines: lost.lines, keys: lost.keys } }
      : {}),
    skipped: skipped.flatMap((one) =>
      isObject(one) && isText(one.path) && isText(one.reason)
        ? [{ path: one.path.slice(0, 1_280), reason: one.reason.slice(0, 80) }]
        : [],
    ),
    usage: {
      wallMs,
      ...(isAmount(cpuMs) ? { cpuMs } : {}),
      ...(isAmount(memoryPeakBytes) ? { memoryPeakBytes } : {}),
    },
    enforced: mechanisms(enforced),
    ...(isLimit(hit) ? { hit } : {}),
    ...(isObject(fault) ? { fault: readFault(fault) } : {}),
    alive: alive === true,
  }
}

function readExit(value: Json | undefined): Outcome['exit'] | undefined {
  if (!isObject(value)) return undefined
  const { code, signal } = value
  if (isCount(code) && code < 256) return { code }
  return isText(signal) && /^SIG[A-Z0-9+-]{1,12}$/.test(signal) ? { signal } : undefined
}

function readStream(value: Json | undefined): WireOutcome['stdout'] | undefined {
  if (!isObject(value) || !isCount(value.total) || typeof value.truncated !== 'boolean') return undefined
  return { total: value.total, truncated: value.truncated }
}

const longestText = 8_192

function readFault(value: JsonObject): ProgramFault {
  const { kind, name, message, line, column, stack, error } = value
  return {
    kind: kind === 'compile' ? 'compile' : 'run',
    name: clip(name, 'Error'),
    message: clip(message, ''),
    ...(isCount(line) ? { line } : {}),
    ...(isCount(column) ? { column } : {}),
    ...(isText(stack) ? { stack: clip(stack, '') } : {}),
    ...(error === undefined ? {} : { error }),
  }
}

function clip(value: Json | undefined, otherwise: string): string {
  return isText(value) ? value.slice(0, longestText) : otherwise
}

function mechanisms(value: unknown): Outcome['enforced'] {
  if (!isObject(value)) return {}
  const entries = limitNames.flatMap((name) => {
    const by = value[name]
    return isText(by) ? [[name, by.slice(0, 128)]] : []
  })
  return Object.fromEntries(entries)
}

function isLimit(value: Json | undefined): value is keyof SandboxLimits {
  return limitNames.some((name) => name === value)
}

function isName(value: unknown): value is string {
  return isText(value) && /^[a-z][a-z0-9_]{0,31}$/.test(value)
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter(isText).slice(0, 256) : []
}
