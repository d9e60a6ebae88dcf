import { buffer } from 'node:stream/consumers'
import { type DefinedTool, defineTool } from '@gantry/core'
import { showBytes } from '@gantry/core/internal/artifacts/show-bytes'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { searchText } from './artifact-search.ts'

/** Tools to read what was too large for a result; everybody sees the artifacts of his own tenant. */
export function artifactTools(artifacts: Pick<Artifacts, 'open'>): DefinedTool[] {
  return [readTool(artifacts), searchTool(artifacts)]
}

const namespace = 'artifacts'
const timeoutMs = 60_000
const id = { type: 'string', description: 'The id of the artifact, such as art_0123….' } as const
const offset = { type: 'integer', minimum: 0, description: 'Where to begin, in bytes; 0 unless told.' } as const
const next = { type: 'integer', description: 'The offset to go on from; absent when there is no more.' } as const

function readTool(artifacts: Pick<Artifacts, 'open'>): DefinedTool {
  return defineTool({
    namespace,
    name: 'read',
    title: 'Read an artifact',
    description: 'Reads a part of a file that was too large for a result, or that a program made.',
    tags: ['artifacts', 'files', 'results'],
    docs: 'Text comes as text, cut between characters; bytes that are no text come as base64. Go on at `next`.',
    effect: 'read',
    timeoutMs,
    inputSchema: {
      type: 'object',
      properties: {
        artifact: id,
        offset,
        // A character has up to four bytes, and one must fit.
        length: { type: 'integer', minimum: 4, maximum: 32_768, description: 'How many bytes; 16384 unless told.' },
      },
      required: ['artifact'],
      additionalProperties: false,
    },
    outputSchema: {
      type: 'object',
      properties: {
        name: { type: 'string' },
        mimeType: { type: 'string' },
        bytes: { type: 'integer', description: 'Of the whole artifact.' },
        offset: { type: 'integer', description: 'Where this part begins.' },
        text: { type: 'string' },
        base64: { type: 'string' },
        next,
      },
      required: ['name', 'mimeType', 'bytes', 'offset'],
    },
    async run({ artifact, offset = 0, length = 16_384 }, { identity, signal }) {
      const range = { start: offset, end: offset + length }
      const opened = await artifacts.open(artifact, identity, range, signal)
      const { name, mimeType, bytes } = opened.artifact
      const read = await buffer(opened.content)
      const { start, end, ...shown } = showBytes(read, offset, offset + read.length >= bytes)
      return { name, mimeType, bytes, offset: start, ...shown, ...(end < bytes ? { next: end } : {}) }
    },
  })
}

function searchTool(artifacts: Pick<Artifacts, 'open'>): DefinedTool {
  return defineTool({
    namespace,
    name: 'search',
    title: 'Search an artifact',
    description: 'Finds a text in a file that was too large for a result, with line numbers and what stands around it.',
    tags: ['artifacts', 'files', 'results', 'grep'],
    docs: 'The text is looked for as it is: no pattern, and capital letters count. Go on at `next`.',
    effect: 'read',
    timeoutMs,
    inputSchema: {
      type: 'object',
      properties: {
        artifact: id,
        text: { type: 'string', minLength: 1, maxLength: 256, description: 'What to look for.' },
        limit: { type: 'integer', minimum: 1, maximum: 100, description: 'How many matches; 20 unless told.' },
        context: { type: 'integer', minimum: 0, maximum: 500, description: 'Bytes around each; 100 unless told.' },
        offset,
      },
      required: ['artifact', 'text'],
      additionalProperties: false,
    },
    outputSchema: {
      type: 'object',
      properties: {
        name: { type: 'string' },
        bytes: { type: 'integer' },
        matches: {
          type: 'array',
          items: {
            type: 'object',
            properties: { line: { type: 'integer' }, offset: { type: 'integer' }, text: { type: 'string' } },
            required: ['line', 'offset', 'text'],
          },
        },
        next,
      },
      required: ['name', 'bytes', 'matches'],
    },
    async run({ artifact, text, limit = 20, context = 100, offset = 0 }, { identity, signal }) {
      const { artifact: found, content } = await artifacts.open(artifact, identity, undefined, signal)
      const { name, bytes } = found
      return { name, bytes, ...(await searchText(content, { text, limit, context, from: offset })) }
    },
  })
}
