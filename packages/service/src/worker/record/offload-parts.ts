import type { ErrorInfo, Json, JsonObject } from '@gantry/contract'
import { contentParts } from './offload-content.ts'
import { type DraftChain, type DraftResult, type DraftStep, type Part, valuePart } from './offload-part.ts'
import { isSandboxed, sandboxParts } from './offload-sandbox.ts'
import { markedText, marker, type TakenOut } from './preview.ts'

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
