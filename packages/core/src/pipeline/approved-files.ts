import { type ApprovalFile, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import type { Artifacts } from '../artifacts/artifact.ts'
import type { Run } from './run.ts'

/** As many as a sandbox takes; and characters of all pointers and ids, because a long key stands before each file below it. */
const most = { files: 1_000, characters: 262_144 } as const
/** A longer text under `artifact` is something else. */
const longestId = 256

/**
 * Where arguments name files: every text under the key `artifact`, as in `{"artifact": id}` of a program's files.
 * - Errors: INPUT_INVALID for more than an approver is shown.
 */
export function namedFiles(args: JsonObject): readonly Pick<ApprovalFile, 'path' | 'id'>[] {
  const named: Pick<ApprovalFile, 'path' | 'id'>[] = []
  let characters = 0
  const note = (path: string, id: string): void => {
    if (id.length > longestId) return
    characters += path.length + id.length
    if (named.push({ path, id }) > most.files || characters > most.characters) throw tooMany()
  }
  const look = (value: Json, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, member] of Object.entries(value)) {
      if (typeof member === 'object') look(member, `${path}/${escapeSegment(key)}`)
      else if (key === 'artifact' && typeof member === 'string') note(`${path}/artifact`, member)
    }
  }
  look(args, '')
  return named
}

function tooMany(): ToolError {
  const message =
    `The arguments name more than ${most.files} artifacts, or under longer keys than an approver is shown; ` +
    'name fewer, or put them into one file.'
  return new ToolError('INPUT_INVALID', message, {
    details: { issues: [{ path: '', message: 'names too many artifacts' }] },
  })
}

/** What the caller's ids stand for now. */
export async function describeFiles(
  named: readonly Pick<ApprovalFile, 'path' | 'id'>[],
  { ports, request, signal }: Pick<Run, 'ports' | 'request' | 'signal'>,
): Promise<readonly ApprovalFile[]> {
  const known = new Map<string, Omit<ApprovalFile, 'path'>>()
  for (const { id } of named) {
    if (known.has(id)) continue
    try {
      const { name, mimeType, bytes, digest } = await ports.artifacts.info(id, request.identity, signal)
      known.set(id, { id, name, mimeType, bytes, digest })
    } catch (error) {
      if (!ToolError.is(error) || error.code !== 'NOT_FOUND') throw error
      known.set(id, { id })
    }
  }
  return named.map(({ path, id }) => ({ path, ...(known.get(id) ?? { id }) }))
}

/**
 * The same files, of which those that were approved have the approved digest.
 * - Errors: DENIED for an id whose content is another by now.
 */
export function approvedArtifacts(artifacts: Artifacts, files: readonly ApprovalFile[]): Artifacts {
  const approved = new Map(files.map(({ id, digest }) => [id, digest]))
  const check = (id: string, digest: string): void => {
    if (approved.has(id) && approved.get(id) !== digest) {
      throw new ToolError('DENIED', `The artifact ${id} is not the file that was approved; make the call again.`)
    }
  }
  return {
    put: (file, maker, signal) => artifacts.put(file, maker, signal),
    async info(id, reader, signal) {
      const info = await artifacts.info(id, reader, signal)
      check(id, info.digest)
      return info
    },
    async read(id, reader, range, signal) {
      const read = await artifacts.read(id, reader, range, signal)
      check(id, read.artifact.digest)
      return read
    },
    list: (query, reader, signal) => artifacts.list(query, reader, signal),
    remove: (id, reader, signal) => artifacts.remove(id, reader, signal),
  }
}
