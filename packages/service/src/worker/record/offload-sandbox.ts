import type { JsonObject } from '@gantry/contract'
import { bytesPart, type DraftResult, isObject, type Part, valuePart } from './offload-part.ts'
import { markedText, marker, type TakenOut } from './preview.ts'

/** The result of a program in a sandbox. */
type Sandboxed = DraftResult & { output: JsonObject & { stdout: string; stderr: string } }

/** Whether the output is that of a program, whose streams and files are worth a file of their own. */
export function isSandboxed(result: DraftResult): result is Sandboxed {
  const { runtime, output } = result
  return (
    runtime !== undefined && isObject(output) && typeof output.stdout === 'string' && typeof output.stderr === 'string'
  )
}

/** What a program wrote, gave and made, so that the output keeps its shape and its exit code stays to be seen. */
export function* sandboxParts(owner: Sandboxed): Generator<Part> {
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
