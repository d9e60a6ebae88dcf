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
import { previewOf, type TakenOut } from './preview.ts'

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
