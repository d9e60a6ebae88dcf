import type { SandboxLimits, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Outcome, ProgramMessage, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { checkPath } from '@gantry/sandbox/internal/languages/file-path'
import {
  jsonBytes,
  type OpenedState,
  readJson,
  readMessage,
  readOpened,
  readOutcome,
} from '@gantry/sandbox-remote/internal/protocol/documents'
import { errorDocument, readErrorDocument } from '@gantry/sandbox-remote/internal/protocol/refusal'

/** How a program ended on a worker. */
export type SandboxEnd =
  | {
      readonly kind: 'outcome'
      readonly within: OpenedState
      readonly outcome: Outcome
      readonly messages: readonly ProgramMessage[]
    }
  | { readonly kind: 'error'; readonly error: ToolError }

const headBytes = 4

/** The head as JSON with its length before it, then both streams and the files as bytes. */
export function encodeEnd(end: SandboxEnd): Uint8Array {
  if (end.kind === 'error') return joined(errorDocument(end.error), [])
  const { stdout, stderr, files, ...rest } = end.outcome
  const head = {
    within: end.within,
    outcome: { ...rest, stdout: countsOf(stdout), stderr: countsOf(stderr), alive: false },
    messages: end.messages,
    sizes: [stdout.bytes.length, stderr.bytes.length],
    files: [...files].map(([path, bytes]) => [path, bytes.length]),
  }
  return joined(head, [stdout.bytes, stderr.bytes, ...files.values()])
}

function countsOf({ total, truncated }: Outcome['stdout']): object {
  return { total, truncated }
}

function joined(head: object, parts: readonly Uint8Array[]): Uint8Array {
  const bytes = jsonBytes(head)
  const length = Buffer.alloc(headBytes)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes, ...parts])
}

/** Reads the end of a run; undefined for a document that no correct worker writes. A worker is not trusted with this process. */
export function decodeEnd(
  bytes: Uint8Array,
  limits: SandboxLimits,
  collect: SandboxJob['collect'],
): SandboxEnd | undefined {
  try {
    return read(Buffer.from(bytes), limits, collect)
  } catch {
    return undefined
  }
}

function read(bytes: Buffer, limits: SandboxLimits, collect: SandboxJob['collect']): SandboxEnd | undefined {
  const end = headBytes + bytes.readUInt32BE(0)
  const head = readJson(bytes.subarray(headBytes, end))
  const error = readErrorDocument(head)
  if (error !== undefined) return { kind: 'error', error }
  if (!isObject(head) || head.outcome === undefined || !Array.isArray(head.sizes) || !Array.isArray(head.files))
    return undefined
  const [within, outcome] = [readOpened(head.within), readOutcome(head.outcome)]
  if (within === undefined || outcome === undefined) return undefined
  let rest = bytes.subarray(end)
  const take = (size: unknown, most: number): Uint8Array => {
    if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0 || size > Math.min(most, rest.length))
      throw new Error('a size that it may not have')
    const part = rest.subarray(0, size)
    rest = rest.subarray(size)
    return part
  }
  const [stdout, stderr] = [take(head.sizes[0], limits.stdoutBytes), take(head.sizes[1], limits.stderrBytes)]
  if (head.files.length > (collect?.files ?? 0)) return undefined
  let left = collect?.bytes ?? 0
  const files = new Map<string, Uint8Array>()
  for (const entry of head.files) {
    const [path, size] = Array.isArray(entry) ? entry : []
    if (!isText(path) || checkPath(path) !== undefined || files.has(path)) return undefined
    const content = take(size, left)
    left -= content.length
    files.set(path, content)
  }
  if (rest.length > 0) return undefined
  const messages = Array.isArray(head.messages) ? head.messages.flatMap((one) => readMessage(one) ?? []) : []
  const { alive: _, ...ended } = outcome
  return {
    kind: 'outcome',
    within,
    messages,
    outcome: {
      ...ended,
      stdout: { ...outcome.stdout, bytes: stdout, total: Math.max(outcome.stdout.total, stdout.length) },
      stderr: { ...outcome.stderr, bytes: stderr, total: Math.max(outcome.stderr.total, stderr.length) },
      files,
    },
  }
}

/** The output of a running program as a heartbeat reports it: its last pieces, and how many there were before. */
export interface OutputReport {
  readonly skipped: number
  readonly pieces: readonly { readonly stream: 'stdout' | 'stderr'; readonly base64: string }[]
}

export function readOutputReport(value: unknown): OutputReport | undefined {
  if (!isObject(value) || typeof value.skipped !== 'number' || !Array.isArray(value.pieces)) return undefined
  const pieces = value.pieces.flatMap((one) => {
    if (!isObject(one) || !isText(one.base64)) return []
    const { stream, base64 } = one
    return stream === 'stdout' || stream === 'stderr' ? [{ stream, base64 } as const] : []
  })
  return pieces.length === value.pieces.length ? { skipped: value.skipped, pieces } : undefined
}
