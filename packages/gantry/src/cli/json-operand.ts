import { resolve } from 'node:path'
import { type Json, ToolError } from '@gantry/contract'
import { type BoundedFile, readBoundedFile } from '@gantry/service/internal/config/bounded-file'
import { usageError } from './errors.ts'
import type { Io } from './io.ts'

/** Above every limit of the pipeline, so that the pipeline's own limits apply. */
const limits = { bytes: 67_108_864, depth: 256, nodes: 4_000_000 }

/** Literal JSON, `@file`, or `-` for stdin; `name` identifies the operand in messages. */
export async function readJson(name: string, text: string, io: Io): Promise<Json> {
  if (text === '-') return parse(name, 'stdin', await io.readInput(limits.bytes))
  if (text.startsWith('@')) return readJsonFile(name, text.slice(1), io)
  return parse(name, 'the command line', text)
}

export async function readJsonFile(name: string, file: string, io: Io): Promise<Json> {
  return parse(name, file, readTextFile(name, file, io))
}

/** Limits of a file that is read as text. */
export const textLimit = limits.bytes

/** The text of a regular file; PAYLOAD_INVALID names the operand `name`. */
export function readTextFile(name: string, file: string, io: Io): string {
  const path = resolve(io.folder, file)
  const unreadable = (why: string, cause?: unknown): ToolError =>
    new ToolError('PAYLOAD_INVALID', `The file ${file} for ${name} ${why}.`, {
      details: { file: path },
      ...(cause === undefined ? {} : { cause }),
    })
  let found: BoundedFile
  try {
    found = readBoundedFile(path, limits.bytes)
  } catch (error) {
    throw unreadable('cannot be read', error)
  }
  if (found.state === 'not-a-file') throw unreadable('is not a regular file; what comes from a pipe is read with -')
  if (found.state === 'too-long') throw tooLarge(name)
  return found.text
}

async function parse(name: string, source: string, text: string): Promise<Json> {
  const [{ JsonError }, { parseJson }] = await Promise.all([
    import('@gantry/core/internal/json/plain'),
    import('@gantry/core/internal/json/parse'),
  ])
  if (text.trim() === '') throw usageError(name, `${name} from ${source} is empty; expected JSON.`)
  try {
    return parseJson(text.replace(/^\ufeff/, ''), limits)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new ToolError('PAYLOAD_INVALID', `${name} from ${source} is not valid JSON.`, {
      details: { issues: [{ path: error.path, message: error.message }] },
    })
  }
}

export function tooLarge(name: string): ToolError {
  return new ToolError('PAYLOAD_INVALID', `${name} is longer than ${limits.bytes} bytes.`, {
    details: { bytes: limits.bytes },
  })
}
