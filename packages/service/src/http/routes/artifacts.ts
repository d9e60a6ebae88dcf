import { type ArtifactRef, ToolError } from '@gantry/contract'
import type { Answer } from '../answer.ts'
import { problem } from '../problems.ts'
import type { Asked, Route } from '../route.ts'
import type { Service } from '../service.ts'

const typeForm = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/i
const longestName = 150

const readArtifact: Route = {
  id: 'readArtifact',
  method: 'GET',
  path: '/v1/artifacts/:id',
  tag: 'artifacts',
  summary: 'The content of a file that a call left, or a part of it.',
  access: 'key',
  headers: { Range: '`bytes=from-to` or `bytes=from-`; anything else gives all of it.' },
  answers: {
    200: { description: 'All of it.', type: 'application/octet-stream' },
    206: {
      description: 'The part.',
      type: 'application/octet-stream',
      headers: { 'Content-Range': 'Which part it is.' },
    },
    416: { description: 'There is nothing in that range.' },
  },
  errors: ['NOT_FOUND'],
  handle: read,
}

async function read({ params, headers, identity, gone }: Asked, service: Service): Promise<Answer> {
  const range = headers['if-range'] === undefined ? rangeOf(headers.range) : undefined
  const { artifact, start, end, content } = await service.artifact(params.id ?? '', range, identity, gone)
  const { bytes } = artifact
  if (range !== undefined && range.start >= bytes) {
    content.destroy()
    const error = new ToolError('PAYLOAD_INVALID', `The file has ${bytes} bytes.`, { details: { bytes } })
    return problem(error, 416, { 'content-range': `bytes */${bytes}` })
  }
  const part = range === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${bytes}` }
  const own = { ...fileHeaders(artifact), ...part, 'content-length': String(end - start) }
  return { kind: 'content', status: range === undefined ? 200 : 206, headers: own, content }
}

/** The one range of bytes that is asked for; `end` is the byte behind it. Others may be answered with everything. */
function rangeOf(header: string | undefined): { start: number; end?: number } | undefined {
  const [, from = '', to = ''] = /^bytes=([0-9]{1,15})-([0-9]{0,15})$/.exec(header ?? '') ?? []
  if (from === '') return undefined
  const start = Number(from)
  if (to === '') return { start }
  return Number(to) < start ? undefined : { start, end: Number(to) + 1 }
}

/** A tool chose the name and the type: neither may end a header, leave a folder, or make a browser show the file. */
function fileHeaders({ name, mimeType }: ArtifactRef): { [name: string]: string } {
  const plain = name.replace(/[^\x20-\x7e]|["\\/%]/g, '_').replace(/^\.+/, '_')
  const whole = name
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\\/]/gu, '_')
    .replace(/^\.+/, '_')
  const ascii = plain.slice(0, longestName).trim() || 'artifact'
  const utf8 = encodeURIComponent([...whole].slice(0, longestName).join('')).replace(/['()*]/g, hex)
  return {
    'accept-ranges': 'bytes',
    'content-disposition': `attachment; filename="${ascii}"; filename*=UTF-8''${utf8 || 'artifact'}`,
    'content-type': typeForm.test(mimeType) ? mimeType : 'application/octet-stream',
  }
}

function hex(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`
}

export const artifactRoutes: readonly Route[] = [readArtifact]
