import { createHash } from 'node:crypto'
import { type ArtifactRef, type Issue, type SandboxFile, ToolError } from '@gantry/contract'
import { mediaType } from '@gantry/core/internal/artifacts/artifact'
import type { BackendContext } from '@gantry/core/internal/backends/backend'
import type { Captured } from '@gantry/core/internal/runtimes/runtime'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { defaultFileLimits, type HandedFile } from '../languages/file-path.ts'

/** A larger file becomes an artifact. */
const mostInline = 16_384

/** Media types that become artifacts at any size, because a client shows or opens them. */
const apart = /^(?:image|audio|video)\/|^application\/(?:pdf|vnd\.)|^text\/(?:csv|tab-separated-values)$/

/**
 * The files of a program for its output: inline, or by the id of an artifact. Equal content of the same media type is
 * stored once. A file that could not be stored stays inline, and the result has a warning.
 */
export async function outputFiles(
  files: readonly (readonly [string, Uint8Array])[],
  { keepsFiles, attach }: Pick<BackendContext, 'keepsFiles' | 'attach'>,
): Promise<{ [path: string]: SandboxFile }> {
  const kept = new Map<string, Promise<SandboxFile>>()
  const listed: { [path: string]: SandboxFile } = Object.create(null)
  for (const [path, content] of files) {
    const mimeType = mediaType(path, content)
    if (!keepsFiles || (content.length <= mostInline && !apart.test(mimeType))) listed[path] = outputFile(content)
    else {
      const key = `${mimeType} ${createHash('sha256').update(content).digest('base64')}`
      const keeping = kept.get(key) ?? keep(path, content, mimeType, attach)
      kept.set(key, keeping)
      listed[path] = await keeping
    }
  }
  return listed
}

async function keep(
  name: string,
  content: Uint8Array,
  mimeType: string,
  attach: BackendContext['attach'],
): Promise<SandboxFile> {
  try {
    return { artifact: (await attach({ name, content, mimeType })).id }
  } catch {
    return outputFile(content)
  }
}

type Files = { readonly [path: string]: SandboxFile }

/**
 * The files of a call, with every artifact replaced by its content.
 * - Errors: NOT_FOUND for an artifact that the caller cannot see; INPUT_INVALID for more files or bytes than a sandbox takes.
 */
export async function withArtifacts(
  files: Files,
  { artifacts, identity, signal }: Pick<BackendContext, 'artifacts' | 'identity' | 'signal'>,
): Promise<{ readonly [path: string]: HandedFile }> {
  const named = Object.entries(files).flatMap(([path, file]) =>
    typeof file === 'object' && 'artifact' in file ? [{ path, id: file.artifact }] : [],
  )
  if (named.length === 0) return files
  const { files: most, bytes: mostBytes } = defaultFileLimits
  if (named.length > most) throw invalid({ path: '/files', message: `names more than ${most} artifacts` })
  const found: Pick<ArtifactRef, 'bytes' | 'digest'>[] = []
  let left = mostBytes
  // All sizes are checked before one artifact is read, so that an excess is refused without loading.
  for (const { path, id } of named) {
    const { bytes, digest } = await artifacts.info(id, identity, signal)
    left -= bytes
    if (left < 0) throw invalid({ path: pointerTo(path), message: `takes the artifacts over ${mostBytes} bytes` })
    found.push({ bytes, digest })
  }
  const resolved: { [path: string]: HandedFile } = Object.assign(Object.create(null), files)
  for (const [index, { path, id }] of named.entries()) {
    const { bytes = 0, digest = '' } = found[index] ?? {}
    const { content } = await artifacts.read(id, identity, { start: 0, end: bytes }, signal)
    if ((await digestOf(content)) !== digest) throw altered(id, digest)
    resolved[path] = content
  }
  return resolved
}

/** Hashes off the main thread, because files may be large. */
async function digestOf(content: Uint8Array): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-256', content as Uint8Array<ArrayBuffer>)
  return `sha256:${Buffer.from(bytes).toString('hex')}`
}

/** The digest was approved, so other bytes must not run. */
function altered(id: string, digest: string): ToolError {
  const message = `The artifact ${id} holds other bytes than its digest ${digest} says; store the file again.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}

function pointerTo(path: string): string {
  return `/files/${escapeSegment(path.length > 200 ? `${path.slice(0, 200)}…` : path).toWellFormed()}`
}

function invalid(issue: Issue): ToolError {
  const message = `Invalid files: ${issue.path} ${issue.message}.`
  return new ToolError('INPUT_INVALID', message, { details: { issues: [issue] } })
}

/**
 * The output of a program as text. Invalid UTF-8 becomes U+FFFD; NUL bytes are kept. An incomplete character at the end
 * of a truncated stream is dropped.
 */
export function outputText({ bytes, truncated }: Pick<Captured, 'bytes' | 'truncated'>): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: truncated })
}

/** A collected file: text when it is valid UTF-8, else base64. */
export function outputFile(bytes: Uint8Array): SandboxFile {
  try {
    return new TextDecoder('utf-8', { ignoreBOM: true, fatal: true }).decode(bytes)
  } catch {
    return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') }
  }
}
