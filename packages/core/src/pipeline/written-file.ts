import { ToolError } from '@gantry/contract'
import type { AttachedFile } from '../backends/backend.ts'
import type { WrittenFile } from '../backends/write-back.ts'
import type { Run } from './run.ts'

const longestName = 200
const textType = 'text/plain'
const bytesType = 'application/octet-stream'

/** In bytes; refuses what is no file. */
export function bytesOf(file: AttachedFile): number {
  const { name, content, mimeType = '' } = file ?? {}
  if (typeof name !== 'string' || typeof mimeType !== 'string') {
    throw new ToolError('OUTPUT_INVALID', 'A file to attach must have a name, and its mimeType must be a text.')
  }
  if (typeof content === 'string') return Buffer.byteLength(content)
  if (content instanceof Uint8Array) return content.byteLength
  throw new ToolError('OUTPUT_INVALID', 'The content of a file to attach must be a text or a Uint8Array.')
}

/** The file as it may leave: a copy under a plain name, without secrets. */
export function writtenFile({ name, content, mimeType }: AttachedFile, run: Run): WrittenFile {
  const plain = typeof content === 'string' ? textType : bytesType
  return {
    name: plainName(run.shown(name, longestName * 10)),
    mimeType: plainType(run.shown(mimeType ?? plain, longestName)),
    content: run.redactor?.bytes(Buffer.from(content)) ?? Buffer.from(content),
  }
}

/** The last part of what may be a path, without what cannot be seen; its end is kept when it is too long. */
function plainName(name: string): string {
  const seen = name.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '').toWellFormed()
  const last = (seen.split(/[\\/]/).at(-1) ?? '').trim().slice(-longestName)
  return /^\.*$/.test(last) ? 'file' : last
}

/** What does not look like a media type is bytes; parameters go. */
function plainType(type: string): string {
  const plain = (type.split(';', 1)[0] ?? '').trim().toLowerCase()
  return /^[a-z0-9][\w.+-]{0,63}\/[a-z0-9][\w.+-]{0,127}$/.test(plain) ? plain : bytesType
}
