import type {
  ArtifactRef,
  ChainResult,
  Content,
  Effect,
  Json,
  JsonObject,
  Result,
  StepResult,
  Warning,
} from '@gantry/contract'

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }

/** A result that may be changed. */
export type DraftResult = Writable<Omit<Result, 'content' | 'warnings' | 'artifacts' | 'effects'>> & {
  content: Content[]
  warnings: Warning[]
  artifacts: ArtifactRef[]
  effects: Effect[]
}
export type DraftChain = Writable<Omit<ChainResult, 'steps'>> & { steps: DraftStep[] }
export type DraftStep = Writable<Omit<StepResult, 'results' | 'steps'>> & {
  results: DraftResult[]
  steps?: DraftStep[]
}

/** A copy of an outcome whose large parts can be replaced without the outcome's knowing; what is in them is shared. */
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

/** The output of a sandbox is changed member by member, and its files one by one. */
function draftOutput(output: Json): Json {
  if (!isObject(output)) return output
  return isObject(output.files) ? { ...output, files: { ...output.files } } : { ...output }
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Something in a result that can be kept outside it. */
export interface Part {
  /** What it is, to begin a sentence with. */
  readonly what: string
  /** What the file is called. */
  readonly name: string
  readonly mimeType: string
  readonly content: string | Uint8Array
  /** Bytes that it takes in the JSON text of the result. */
  readonly bytes: number
  /** The result that lists the file; the steps and the output of a chain have none. */
  readonly owner: DraftResult | undefined
  /** Puts what is known of it in its place. */
  replace(taken: TakenOut): void
}

export type PartAbout = Pick<Part, 'what' | 'name' | 'owner' | 'replace'>

/** A text as it is, and any other value as JSON; so is a text that UTF-8 cannot hold. */
export function valuePart(value: Json, about: PartAbout): Part {
  const json = JSON.stringify(value)
  const bytes = Buffer.byteLength(json)
  if (typeof value === 'string' && value.isWellFormed()) {
    return { ...about, name: `${about.name}.txt`, mimeType: 'text/plain', content: value, bytes }
  }
  return { ...about, name: `${about.name}.json`, mimeType: 'application/json', content: json, bytes }
}

/** Bytes that were written in base64; what is none stays the text that it was. */
export function bytesPart(base64: string, mimeType: string, about: PartAbout): Part {
  const content = Buffer.from(base64, 'base64')
  const bytes = base64.length
  if (content.toString('base64') !== base64) return { ...about, mimeType: 'text/plain', content: base64, bytes }
  return { ...about, mimeType, content, bytes }
}

/** Each part that was taken out has a warning, up to this number; what stands in their places tells of all of them. */
const mostWarnings = 5

/** Takes a part out of its result, which says so; without an artifact what is not shown is lost. */
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

/** The beginning and the end of a text that is elsewhere. */
interface Preview {
  readonly head: string
  readonly tail: string
}

/** Cuts a text down to so many characters, two thirds of them from its beginning, and no character in half. */
export function previewOf(text: string, characters: number): Preview {
  const head = Math.min(text.length, Math.ceil((characters * 2) / 3))
  const tail = Math.max(head, text.length - (characters - Math.ceil((characters * 2) / 3)))
  return { head: text.slice(0, boundary(text, head)), tail: text.slice(boundary(text, tail)) }
}

/** The same place, or the one before it when that is inside a pair of surrogates. */
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

/** What is known of something that was taken out of a result. */
export interface TakenOut {
  /** Where it is now; undefined when it could not be kept. */
  readonly artifact: ArtifactRef | undefined
  readonly bytes: number
  readonly mimeType: string
  /** Absent for what is not text. */
  readonly preview?: Preview
}

/** What stands in the place of a value. */
export function marker({ artifact, bytes, mimeType, preview }: TakenOut): JsonObject {
  const shown = preview === undefined ? {} : { preview: { ...preview } }
  if (artifact === undefined) return { cut: { bytes, mimeType, ...shown } }
  return { spilled: { artifact: artifact.id, bytes, mimeType, digest: artifact.digest, ...shown } }
}

/** What stands in the place of a text, where only a text can. */
export function markedText({ artifact, bytes, preview }: TakenOut): string {
  const where = artifact === undefined ? 'the rest is lost' : `all of it is in ${artifact.id}, for artifacts:read`
  return `${preview?.head ?? ''}\n[… ${bytes} bytes in all; ${where} …]\n${preview?.tail ?? ''}`
}
