import { type ArtifactRef, ToolError } from '@gantry/contract'
import { attachment } from '../../storage/artifacts/content.ts'
import { type Answer, json, problem } from '../answer.ts'
import type { ParsedRequest, Route } from '../route.ts'
import type { Service } from '../service.ts'

const typeForm = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/i

const readArtifact: Route = {
  id: 'readArtifact',
  method: 'GET',
  path: '/v1/artifacts/:id',
  tag: 'artifacts',
  summary: 'The content of an artifact, or a range of it.',
  access: 'key',
  headers: { Range: '`bytes=from-to` or `bytes=from-`; anything else gives all of it.' },
  answers: {
    200: { description: 'The whole content.', type: 'application/octet-stream' },
    206: {
      description: 'The range.',
      type: 'application/octet-stream',
      headers: { 'Content-Range': 'The range that is returned.' },
    },
    416: { description: 'The range is beyond the content.' },
  },
  errors: ['NOT_FOUND', 'RATE_LIMITED'],
  handle: read,
}

async function read({ params, headers, identity, gone, hold }: ParsedRequest, service: Service): Promise<Answer> {
  hold()
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

/** The requested range of bytes; `end` is exclusive. Several ranges are answered with the whole content. */
function rangeOf(header: string | undefined): { start: number; end?: number } | undefined {
  const [, from = '', to = ''] = /^bytes=([0-9]{1,15})-([0-9]{0,15})$/.exec(header ?? '') ?? []
  if (from === '') return undefined
  const start = Number(from)
  if (to === '') return { start }
  return Number(to) < start ? undefined : { start, end: Number(to) + 1 }
}

/** A tool chose the name and the type: neither may end a header, leave a folder, or make a browser render the file. */
function fileHeaders({ name, mimeType }: ArtifactRef): { [name: string]: string } {
  return {
    'accept-ranges': 'bytes',
    'content-disposition': attachment(name),
    'content-type': typeForm.test(mimeType) ? mimeType : 'application/octet-stream',
  }
}

const locateArtifact: Route = {
  id: 'locateArtifact',
  method: 'GET',
  path: '/v1/artifacts/:id/url',
  tag: 'artifacts',
  summary: 'A URL of the content: a signed one of the object store for a few minutes, else one of this service.',
  access: 'key',
  answers: {
    200: {
      description: 'The URL. A signed one lets its holder read the file, and nothing else, until it expires.',
      schema: {
        type: 'object',
        properties: { url: { type: 'string' }, signed: { type: 'boolean' }, expiresMs: { type: 'integer' } },
        required: ['url', 'signed'],
      },
    },
  },
  errors: ['NOT_FOUND'],
  async handle({ params: { id = '' }, identity, gone }, service) {
    return json(await service.artifactUrl(id, identity, gone), 200, { 'cache-control': 'no-store' })
  },
}

export const artifactRoutes: readonly Route[] = [readArtifact, locateArtifact]
