import { type ArtifactRef, type Effect, type ErrorCode, type Json, ToolError, type Warning } from '@gantry/contract'
import type { AttachedFile } from '../backends/backend.ts'
import type { EffectSink, WrittenFile } from '../backends/program-journal.ts'
import { parseToolId } from '../ids/tool-id.ts'
import { copyJson, JsonError } from '../json/plain.ts'
import type { Run } from './run.ts'

const mostMessages = 1_000
const mostFiles = 100
const mostFileBytes = 67_108_864
const mostTools = 100

/**
 * # Effects of a tool in one call: messages, files and injected tools, in order
 *
 * States of an effect:
 * - `waiting`: the host has not confirmed it yet.
 * - `safe`: the host confirmed it, or no host takes it. Final.
 * - `failed`: the host rejected it. Final.
 *
 * `settled` closes the list; later effects are ignored. Safe effects become the effects of the result, the others are
 * counted in its warnings. A retry appends to the list of the earlier attempts.
 */
export class CallEffects {
  readonly #run: Run
  readonly #parts: Part[] = []
  readonly #underWay: Promise<unknown>[] = []
  #closed = false
  #messages = 0
  #messageBytes = 0
  #files = 0
  #fileBytes = 0
  #tools = 0

  constructor(run: Run) {
    this.#run = run
  }

  send(message: unknown): void {
    if (this.#over) return
    const number = counted(this.#messages, mostMessages, 'send', 'messages')
    const copied = sendable(message)
    const bytes = this.#messageBytes + JSON.stringify(copied).length
    if (bytes > (this.#run.tool?.resultCopy.limits.bytes ?? 0)) {
      throw new ToolError('LIMIT_EXCEEDED', 'The messages of a call together may not be larger than a result.')
    }
    // A refused message takes no number, because the tool may continue without it.
    this.#messages = number
    this.#messageBytes = bytes
    const effect: Effect = { kind: 'message', message: this.#run.redactor?.value(copied) ?? copied }
    const { effectSink } = this.#run.request
    if (effectSink?.send === undefined) this.#parts.push({ state: 'safe', effect })
    else {
      const sending = async (): Promise<Effect> => {
        await effectSink.send?.(effect.message, number, this.#run.signal)
        return effect
      }
      this.#follow('message', sending).catch(() => undefined)
    }
  }

  attach(file: AttachedFile): Promise<ArtifactRef> {
    const kept = this.#keep(file)
    // A tool need not await its file: the result has the outcome in any case.
    kept.catch(() => undefined)
    return kept
  }

  attachedBefore(artifact: ArtifactRef): void {
    if (this.#over) return
    this.#files += 1
    this.#fileBytes += artifact.bytes
    this.#parts.push({ state: 'safe', effect: { kind: 'file', artifact } })
  }

  inject(tool: string): void {
    if (this.#over || this.#parts.some((part) => part.state === 'safe' && isTool(part.effect, tool))) return
    const reason = this.#whyNot(tool)
    if (reason !== undefined) throw new ToolError('OUTPUT_INVALID', reason)
    this.#tools = counted(this.#tools, mostTools, 'inject', 'tools')
    this.#parts.push({ state: 'safe', effect: { kind: 'tool', tool } })
  }

  /** Closes the list and waits until every effect is safe or failed, or the call times out. Never rejects. */
  async settled(): Promise<void> {
    this.#closed = true
    if (this.#underWay.length > 0) await this.#run.within(Promise.all(this.#underWay)).catch(() => undefined)
  }

  effects(): readonly Effect[] {
    return this.#parts.flatMap((part) => (part.state === 'safe' ? [part.effect] : []))
  }

  warnings(): readonly Warning[] {
    return [...this.#warningsOf('message', this.#messages, 'sent'), ...this.#warningsOf('file', this.#files, 'stored')]
  }

  get #over(): boolean {
    return this.#closed || this.#run.ended
  }

  async #keep(file: AttachedFile): Promise<ArtifactRef> {
    if (this.#over) throw new ToolError('CANCELLED', 'The call has ended.', { effect: 'possible' })
    const keep = fileSinkOf(this.#run)
    if (keep === undefined) throw unkept('The host of this call does not store files.')
    const count = counted(this.#files, mostFiles, 'attach', 'files')
    const bytes = this.#fileBytes + bytesOf(file)
    if (bytes > mostFileBytes) {
      throw new ToolError('LIMIT_EXCEEDED', `The files of a call together may have ${mostFileBytes} bytes.`)
    }
    this.#files = count
    this.#fileBytes = bytes
    const written = writtenFile(file, this.#run)
    const keeping = async (): Promise<FileEffect> => {
      return { kind: 'file', artifact: await keep(written, this.#run.signal) }
    }
    const { artifact } = await this.#follow('file', keeping).catch((cause: unknown) => {
      // An exceeded quota is an error of the caller, not of the store.
      if (ToolError.is(cause) && cause.code === 'LIMIT_EXCEEDED') throw cause
      throw unkept(`The file ${written.name} could not be stored.`, cause)
    })
    return artifact
  }

  #whyNot(tool: string): string | undefined {
    const { ports, request } = this.#run
    try {
      parseToolId(tool)
      if (ports.visible(request.identity, ports.catalog.find(tool))) return undefined
    } catch (error) {
      if (ToolError.is(error) && error.code === 'TOOL_ID_INVALID') return error.message
      // A backend that is not discovered yet may have the tool; a call discovers it.
      if (ports.sources.pending(tool) !== undefined) return undefined
    }
    return `There is no tool ${tool} to offer to this caller.`
  }

  #follow<Kind extends Effect>(what: What, work: () => Promise<Kind>): Promise<Kind> {
    const index = this.#parts.push({ state: 'waiting', what }) - 1
    const done = work().then(
      (effect) => {
        this.#parts[index] = { state: 'safe', effect }
        return effect
      },
      (error: unknown) => {
        this.#parts[index] = { state: 'failed', what, code: ToolError.is(error) ? error.code : 'INTERNAL' }
        throw error
      },
    )
    this.#underWay.push(done.catch(() => undefined))
    return done
  }

  /** At most one warning for failed effects of a kind, and one for unconfirmed ones. */
  *#warningsOf(what: What, all: number, done: string): Generator<Warning> {
    const failed = this.#parts.filter((part) => part.state === 'failed' && part.what === what)
    const [first] = failed
    if (first?.state === 'failed') {
      yield { code: first.code, message: `Of ${all} ${what}s, ${failed.length} could not be ${done}.` }
    }
    const open = this.#parts.filter((part) => part.state === 'waiting' && part.what === what).length
    if (open === 0) return
    const message = `Of ${all} ${what}s, ${open} may or may not have been ${done}: the call ended first.`
    yield { code: 'OUTCOME_UNKNOWN', message }
  }
}

/** Where the files of a call are stored: by its host, or else by the executor; undefined when neither stores files. */
export function fileSinkOf({ ports, request }: Run): EffectSink['keep'] {
  const { effectSink, identity, callId, fence } = request
  if (effectSink?.keep !== undefined) return effectSink.keep
  if (!ports.keepsFiles) return undefined
  return (file, signal) => ports.artifacts.put(file, { identity, callId, fence }, signal)
}

type What = 'message' | 'file'
type FileEffect = Extract<Effect, { kind: 'file' }>
type Part =
  | { readonly state: 'safe'; readonly effect: Effect }
  | { readonly state: 'waiting'; readonly what: What }
  | { readonly state: 'failed'; readonly what: What; readonly code: ErrorCode }

function isTool(effect: Effect, tool: string): boolean {
  return effect.kind === 'tool' && effect.tool === tool
}

function counted(count: number, most: number, verb: string, what: string): number {
  if (count < most) return count + 1
  throw new ToolError('LIMIT_EXCEEDED', `A call may ${verb} at most ${most} ${what}.`)
}

function sendable(message: unknown): Json {
  try {
    return copyJson(message, { convert: true, dropped: { count: 0 } })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new ToolError('OUTPUT_INVALID', `The message to send ${error.message} at ${error.path || 'its root'}.`)
  }
}

/** The tool has started, so a file that cannot be stored does not make the call one without effect. */
function unkept(message: string, cause?: unknown): ToolError {
  return new ToolError('STORE_UNAVAILABLE', message, { cause, effect: 'possible', retryable: false })
}

const longestName = 200
const textType = 'text/plain'
const bytesType = 'application/octet-stream'

/** The size of a file in bytes. Throws OUTPUT_INVALID for a value that is not a file. */
function bytesOf(file: AttachedFile): number {
  const { name, content, mimeType = '' } = file ?? {}
  if (typeof name !== 'string' || typeof mimeType !== 'string') {
    throw new ToolError('OUTPUT_INVALID', 'A file to attach must have a name, and its mimeType must be a text.')
  }
  if (typeof content === 'string') return Buffer.byteLength(content)
  if (content instanceof Uint8Array) return content.byteLength
  throw new ToolError('OUTPUT_INVALID', 'The content of a file to attach must be a text or a Uint8Array.')
}

/** A copy of the file under a safe base name, without secrets. */
function writtenFile({ name, content, mimeType }: AttachedFile, run: Run): WrittenFile {
  const plain = typeof content === 'string' ? textType : bytesType
  return {
    name: plainName(run.shown(name, longestName * 10)),
    mimeType: plainType(run.shown(mimeType ?? plain, longestName)),
    content: run.redactor?.bytes(Buffer.from(content)) ?? Buffer.from(content),
  }
}

/** The base name of a path without invisible characters. A long name loses its beginning, so that the extension stays. */
function plainName(name: string): string {
  const seen = name.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '').toWellFormed()
  const last = (seen.split(/[\\/]/).at(-1) ?? '').trim().slice(-longestName)
  return /^\.*$/.test(last) ? 'file' : last
}

/** The media type without parameters; a malformed one becomes application/octet-stream. */
function plainType(type: string): string {
  const plain = (type.split(';', 1)[0] ?? '').trim().toLowerCase()
  return /^[a-z0-9][\w.+-]{0,63}\/[a-z0-9][\w.+-]{0,127}$/.test(plain) ? plain : bytesType
}
