import { type ArtifactRef, type Issue, type SandboxFile, ToolError } from '@gantry/contract'
import type { BackendContext } from '@gantry/core/internal/backends/backend'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { defaultFileLimits, type HandedFile } from '../languages/file-path.ts'

type Files = { readonly [path: string]: SandboxFile }

/**
 * The files of a call, in which every artifact is its content.
 * - Errors: NOT_FOUND for an artifact that is not there for the caller; INPUT_INVALID for more than a sandbox takes.
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
  // All are looked at before one is read, so that what is too much is refused and not half loaded.
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

/** Off the main thread, because files may be large. */
async function digestOf(content: Uint8Array): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-256', content as Uint8Array<ArrayBuffer>)
  return `sha256:${Buffer.from(bytes).toString('hex')}`
}

/** What was approved is a digest, so that other bytes under it must not run. */
function altered(id: string, digest: string): ToolError {
  const message = `The artifact ${id} holds other bytes than its digest ${digest} says; store the file again.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}

function pointerTo(path: string): string {
  return `/files/${escapeSegment(path.length > 200 ? `${path.slice(0, 200)}…` : path).toWellFormed()}`
}

function invalid(issue: Issue): ToolError {
  const message = `The files cannot be had: ${issue.path} ${issue.message}.`
  return new ToolError('INPUT_INVALID', message, { details: { issues: [issue] } })
}
