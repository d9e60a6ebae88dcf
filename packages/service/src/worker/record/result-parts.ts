import type { Content, ErrorInfo, Json, JsonObject } from '@gantry/contract'
import {
  bytesPart,
  type DraftChain,
  type DraftResult,
  type DraftStep,
  isObject,
  markedText,
  marker,
  type Part,
  type PartAbout,
  type TakenOut,
  valuePart,
} from './offload-part.ts'

/** Less than this is not worth a file. */
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
  yield valuePart(error.details as JsonObject, {
    what: 'What is known of the error',
    name: 'error-details',
    owner,
    replace: (taken) => change({ details: marker(taken) }),
  })
}

/** The pieces of content for a model or a person. A text leaves its beginning and end; each leaves a link to its file. */
function* contentParts(owner: DraftResult): Generator<Part> {
  const { content } = owner
  for (const [index, item] of content.entries()) {
    const about = { what: `Piece ${index + 1} of the content`, name: `content-${index + 1}`, owner }
    const link = (taken: TakenOut): void => {
      content[index] = linkTo(taken)
    }
    const preview = (taken: TakenOut): void => {
      content[index] = { type: 'text', text: markedText(taken) }
      // At the end, so that the others keep their places.
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
  return valuePart(resource as JsonObject, about)
}

function linkTo({ artifact, mimeType, bytes }: TakenOut): Content {
  if (artifact === undefined) return { type: 'text', text: `[${mimeType} of ${bytes} bytes, which could not be kept]` }
  const link = { uri: `/v1/artifacts/${artifact.id}`, name: artifact.name, mimeType: artifact.mimeType, size: bytes }
  return { type: 'resource_link', ...link }
}

/** The result of a program in a sandbox. */
type Sandboxed = DraftResult & { output: JsonObject & { stdout: string; stderr: string } }

/** Whether the output is that of a program, whose streams and files are worth a file of their own. */
function isSandboxed(result: DraftResult): result is Sandboxed {
  const { runtime, output } = result
  return (
    runtime !== undefined && isObject(output) && typeof output.stdout === 'string' && typeof output.stderr === 'string'
  )
}

/** What a program wrote, gave and made, so that the output keeps its shape and its exit code stays to be seen. */
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
