import type {
  ArtifactRef,
  ChainResult,
  Content,
  Effect,
  ErrorInfo,
  Json,
  JsonObject,
  Result,
  StepResult,
  Warning,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'

/** Smaller parts are not offloaded. */
const leastBytes = 4_096

/** The parts of an outcome that are worth a file, largest first. */
export function partsOf(outcome: DraftResult | DraftChain): Part[] {
  const parts = 'chainId' in outcome ? [...chainParts(outcome)] : [...resultParts(outcome)]
  return parts.filter(({ bytes }) => bytes >= leastBytes).sort((a, b) => b.bytes - a.bytes)
}

function* chainParts(chain: DraftChain): Generator<Part> {
  yield outputPart(chain, 'The output of the chain', undefined)
  yield* errorParts(chain, undefined)
  for (const step of chain.steps) yield* stepParts(step)
}

function* stepParts(step: DraftStep): Generator<Part> {
  yield outputPart(step, `The output of the step ${step.id}`, undefined)
  yield* errorParts(step, undefined)
  for (const result of step.results) yield* resultParts(result)
  for (const member of step.steps ?? []) yield* stepParts(member)
}

function* resultParts(result: DraftResult): Generator<Part> {
  if (isSandboxed(result)) yield* sandboxParts(result)
  else yield outputPart(result, 'The output', result)
  yield* programParts(result)
  yield* contentParts(result)
  yield* messageParts(result)
  yield* errorParts(result, result)
}

function* programParts(owner: DraftResult): Generator<Part> {
  const { program } = owner
  if (program === undefined) return
  const replace = (taken: TakenOut): void => {
    owner.program = { ...program, printed: markedText(taken) }
  }
  yield valuePart(program.printed, { what: 'What the program printed', name: 'printed', owner, replace })
}

function outputPart(holder: { output: Json }, what: string, owner: DraftResult | undefined): Part {
  const replace = (taken: TakenOut): void => {
    holder.output = marker(taken)
  }
  return valuePart(holder.output, { what, name: 'output', owner, replace })
}

function* messageParts(owner: DraftResult): Generator<Part> {
  for (const [index, effect] of owner.effects.entries()) {
    if (effect.kind !== 'message') continue
    const replace = (taken: TakenOut): void => {
      owner.effects[index] = { ...effect, message: marker(taken) }
    }
    yield valuePart(effect.message, { what: `Message ${index + 1}`, name: `message-${index + 1}`, owner, replace })
  }
}

function* errorParts(holder: { error?: ErrorInfo }, owner: DraftResult | undefined): Generator<Part> {
  const { error } = holder
  if (error === undefined) return
  const change = (members: Partial<ErrorInfo>): void => {
    holder.error = { ...(holder.error ?? error), ...members }
  }
  yield valuePart(error.message, {
    what: 'The message of the error',
    name: 'error',
    owner,
    replace: (taken) => change({ message: markedText(taken) }),
  })
  if (error.details === undefined) return
  yield valuePart(error.details, {
    what: 'What is known of the error',
    name: 'error-details',
    owner,
    replace: (taken) => change({ details: marker(taken) }),
  })
}

/** The content items. Each leaves a link to its file, and a text also a preview. */
function* contentParts(owner: DraftResult): Generator<Part> {
  const { content } = owner
  for (const [index, item] of content.entries()) {
    const about = { what: `Piece ${index + 1} of the content`, name: `content-${index + 1}`, owner }
    const link = (taken: TakenOut): void => {
      content[index] = linkTo(taken)
    }
    const preview = (taken: TakenOut): void => {
      content[index] = { type: 'text', text: markedText(taken) }
      // At the end, so that the other items keep their index.
      if (taken.artifact !== undefined) content.push(linkTo(taken))
    }
    if (item.type === 'text') yield valuePart(item.text, { ...about, replace: preview })
    if (item.type === 'image' || item.type === 'audio') {
      yield bytesPart(item.data, item.mimeType, { ...about, replace: link })
    }
    if (item.type === 'resource') yield resourcePart(item.resource, { ...about, replace: link })
  }
}

function resourcePart(resource: Extract<Content, { type: 'resource' }>['resource'], about: PartAbout): Part {
  const { text, blob, mimeType } = resource
  const type = typeof mimeType === 'string' ? { mimeType } : {}
  if (typeof blob === 'string') return { ...bytesPart(blob, 'application/octet-stream', about), ...type }
  if (typeof text === 'string') return { ...valuePart(text, about), ...type }
  return valuePart(resource, about)
}

function linkTo({ artifact, mimeType, bytes }: TakenOut): Content {
  if (artifact === undefined) return { type: 'text', text: `[${mimeType} of ${bytes} bytes, which could not be kept]` }
  const link = { uri: `/v1/artifacts/${artifact.id}`, name: artifact.name, mimeType: artifact.mimeType, size: bytes }
  return { type: 'resource_link', ...link }
}

/** The result of a program in a sandbox. */
type Sandboxed = DraftResult & { output: JsonObject & { stdout: string; stderr: string } }

/** Whether the output is that of a program in a sandbox, whose streams and files are offloaded one by one. */
function isSandboxed(result: DraftResult): result is Sandboxed {
  const { runtime, output } = result
  return (
    runtime !== undefined && isObject(output) && typeof output.stdout === 'string' && typeof output.stderr === 'string'
  )
}

/** The streams, value and files of a program, so that the output keeps its shape and its exit code. */
function* sandboxParts(owner: Sandboxed): Generator<Part> {
  const { output } = owner
  for (const stream of ['stdout', 'stderr'] as const) {
    const replace = (taken: TakenOut): void => {
      output[stream] = markedText(taken)
      markTruncated(output, stream)
    }
    yield valuePart(output[stream], { what: `What the program wrote to ${stream}`, name: stream, owner, replace })
  }
  if (output.value !== undefined) {
    const replace = (taken: TakenOut): void => {
      output.value = marker(taken)
    }
    yield valuePart(output.value, { what: 'The value', name: 'value', owner, replace })
  }
  if (isObject(output.files)) yield* fileParts(owner, output.files)
}

function* fileParts(owner: Sandboxed, files: JsonObject): Generator<Part> {
  for (const [path, file] of Object.entries(files)) {
    const replace = (taken: TakenOut): void => {
      files[path] = taken.artifact === undefined ? markedText(taken) : { artifact: taken.artifact.id }
      if (taken.artifact === undefined) markTruncated(owner.output, 'files')
    }
    const about = { what: 'A file that the program made', name: path, owner, replace }
    if (typeof file === 'string') yield { ...valuePart(file, about), name: path }
    else if (isObject(file) && typeof file.base64 === 'string') {
      yield bytesPart(file.base64, 'application/octet-stream', about)
    }
  }
}

function markTruncated(output: JsonObject, what: string): void {
  const before = Array.isArray(output.truncated) ? output.truncated : []
  output.truncated = [...new Set([...before, what])]
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }

/** A mutable result. */
export type DraftResult = Writable<Omit<Result, 'content' | 'warnings' | 'artifacts' | 'effects'>> & {
  content: Content[]
  warnings: Warning[]
  artifacts: ArtifactRef[]
  effects: Effect[]
}
export type DraftChain = Writable<Omit<ChainResult, 'steps'>> & { steps: DraftStep[] }
type DraftStep = Writable<Omit<StepResult, 'results' | 'steps'>> & {
  results: DraftResult[]
  steps?: DraftStep[]
}

/** A copy of an outcome whose large parts can be replaced without changing the outcome; all other values are shared. */
export function draftOf(outcome: Result | ChainResult): DraftResult | DraftChain {
  return 'chainId' in outcome ? { ...outcome, steps: outcome.steps.map(draftStep) } : draftResult(outcome)
}

function draftStep({ steps, ...step }: StepResult): DraftStep {
  const draft = { ...step, results: step.results.map(draftResult) }
  return steps === undefined ? draft : { ...draft, steps: steps.map(draftStep) }
}

function draftResult(result: Result): DraftResult {
  const { content, warnings, artifacts, effects, output } = result
  const lists = { content: [...content], warnings: [...warnings], artifacts: [...artifacts], effects: [...effects] }
  return { ...result, ...lists, output: draftOutput(output) }
}

/** The members and files of a sandbox output are replaced one by one. */
function draftOutput(output: Json): Json {
  if (!isObject(output)) return output
  return isObject(output.files) ? { ...output, files: { ...output.files } } : { ...output }
}

/** A part of a result that can be offloaded. */
export interface Part {
  /** The subject of a sentence about it. */
  readonly what: string
  /** The name of its file. */
  readonly name: string
  readonly mimeType: string
  readonly content: string | Uint8Array
  /** Its size in the JSON text of the result. */
  readonly bytes: number
  /** The result that lists the file; the steps and the output of a chain have none. */
  readonly owner: DraftResult | undefined
  /** Replaces the part by a marker. */
  replace(taken: TakenOut): void
}

type PartAbout = Pick<Part, 'what' | 'name' | 'owner' | 'replace'>

/** A text unchanged, and any other value as JSON; so is a text that UTF-8 cannot hold. */
function valuePart(value: Json, about: PartAbout): Part {
  const json = JSON.stringify(value)
  const bytes = Buffer.byteLength(json)
  if (typeof value === 'string' && value.isWellFormed()) {
    return { ...about, name: `${about.name}.txt`, mimeType: 'text/plain', content: value, bytes }
  }
  return { ...about, name: `${about.name}.json`, mimeType: 'application/json', content: json, bytes }
}

/** The bytes of base64; invalid base64 stays text. */
function bytesPart(base64: string, mimeType: string, about: PartAbout): Part {
  const content = Buffer.from(base64, 'base64')
  const bytes = base64.length
  if (content.toString('base64') !== base64) return { ...about, mimeType: 'text/plain', content: base64, bytes }
  return { ...about, mimeType, content, bytes }
}

/** Each offloaded part has a warning, up to this number; the markers name all of them. */
const mostWarnings = 5

/** Removes a part from its result and adds a warning; without an artifact the part is lost except for its preview. */
export function takeOut(part: Part, artifact: ArtifactRef | undefined, characters: number): void {
  const { content, mimeType, owner, what } = part
  const bytes = Buffer.byteLength(content)
  const preview = typeof content === 'string' ? { preview: previewOf(content, characters) } : {}
  part.replace({ artifact, bytes, mimeType, ...preview })
  if (owner === undefined || artifact === undefined) return
  if (!owner.artifacts.some(({ id }) => id === artifact.id)) owner.artifacts.push(artifact)
  if (owner.warnings.filter(({ code }) => code === 'RESULT_TOO_LARGE').length >= mostWarnings) return
  const message =
    `${what} has ${bytes} bytes and is kept as ${artifact.id}; ` +
    'read it with artifacts:read, or look for a text in it with artifacts:search.'
  owner.warnings.push({ code: 'RESULT_TOO_LARGE', message })
}

/** The beginning and the end of an offloaded text. */
interface Preview {
  readonly head: string
  readonly tail: string
}

/** Truncates a text to `characters`, two thirds of them from its beginning, without splitting a character. */
export function previewOf(text: string, characters: number): Preview {
  const head = Math.min(text.length, Math.ceil((characters * 2) / 3))
  const tail = Math.max(head, text.length - (characters - Math.ceil((characters * 2) / 3)))
  return { head: text.slice(0, boundary(text, head)), tail: text.slice(boundary(text, tail)) }
}

/** The same index, or the one before it when that is inside a surrogate pair. */
function boundary(text: string, at: number): number {
  const inPair = isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at))
  return inPair ? at - 1 : at
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000
}

/** What is known of an offloaded part. */
interface TakenOut {
  /** The artifact; undefined when it could not be stored. */
  readonly artifact: ArtifactRef | undefined
  readonly bytes: number
  readonly mimeType: string
  /** Absent for content that is not text. */
  readonly preview?: Preview
}

/** Replaces an offloaded value. */
function marker({ artifact, bytes, mimeType, preview }: TakenOut): JsonObject {
  const shown = preview === undefined ? {} : { preview: { ...preview } }
  if (artifact === undefined) return { cut: { bytes, mimeType, ...shown } }
  return { spilled: { artifact: artifact.id, bytes, mimeType, digest: artifact.digest, ...shown } }
}

/** Replaces an offloaded text where only a text is allowed. */
function markedText({ artifact, bytes, preview }: TakenOut): string {
  const where = artifact === undefined ? 'the rest is lost' : `all of it is in ${artifact.id}, for artifacts:read`
  return `${preview?.head ?? ''}\n[… ${bytes} bytes in all; ${where} …]\n${preview?.tail ?? ''}`
}
