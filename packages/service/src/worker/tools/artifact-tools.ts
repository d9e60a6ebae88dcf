import { buffer } from 'node:stream/consumers'
import { type DefinedTool, defineTool } from '@gantry/core'
import { cutStart, jsonBytes, mostShown, showBytes, wholeEnd } from '@gantry/core/internal/artifacts/show-bytes'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'

/** Tools that read offloaded results; a caller sees the artifacts of its own tenant. */
export function artifactTools(artifacts: Pick<Artifacts, 'open'>): DefinedTool[] {
  return [readTool(artifacts), searchTool(artifacts)]
}

const namespace = 'artifacts'
const timeoutMs = 60_000
const id = { type: 'string', description: 'The id of the artifact, such as art_0123….' } as const
const offset = { type: 'integer', minimum: 0, description: 'Where to begin, in bytes; 0 when absent.' } as const
const next = { type: 'integer', description: 'The offset to go on from; absent when there is no more.' } as const

function readTool(artifacts: Pick<Artifacts, 'open'>): DefinedTool {
  return defineTool({
    namespace,
    name: 'read',
    title: 'Read an artifact',
    description: 'Reads a part of a file that was too large for a result, or that a program made.',
    tags: ['artifacts', 'files', 'results'],
    docs: 'Text comes as text, cut between characters; bytes that are not text come as base64. Go on at `next`.',
    effect: 'read',
    timeoutMs,
    inputSchema: {
      type: 'object',
      properties: {
        artifact: id,
        offset,
        // A character has up to four bytes, and one must fit.
        length: { type: 'integer', minimum: 4, maximum: 32_768, description: 'How many bytes; 16384 when absent.' },
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
        limit: { type: 'integer', minimum: 1, maximum: 100, description: 'How many matches; 20 when absent.' },
        context: { type: 'integer', minimum: 0, maximum: 500, description: 'Bytes around each; 100 when absent.' },
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

/** A match of the text. */
interface Match {
  /** The first line is 1. */
  readonly line: number
  /** In bytes from the beginning of the file. */
  readonly offset: number
  /** The text with its context. */
  readonly text: string
}

interface SearchResult {
  readonly matches: readonly Match[]
  /** The offset of the next match, when there are more than the limit or the size of a result allow. */
  readonly next?: number
}

interface TextSearch {
  readonly text: string
  readonly limit: number
  /** Bytes of context on either side. */
  readonly context: number
  /** Matches before this offset are skipped. */
  readonly from: number
}

/**
 * Searches chunked content for a text, and stops once there are enough matches. It holds no more than a chunk and the
 * context of a match.
 */
export async function searchText(content: AsyncIterable<Buffer>, search: TextSearch): Promise<SearchResult> {
  const finder = createFinder(search)
  for await (const piece of content) if (finder.add(piece)) return finder.result()
  finder.end()
  return finder.result()
}

function createFinder({ text, limit, context, from }: TextSearch) {
  const needle = Buffer.from(text)
  const matches: Match[] = []
  let next: number | undefined
  let bytesLeft = mostShown
  /** The buffer, its offset in the file, and how far it was searched. */
  let window = Buffer.alloc(0)
  let base = 0
  let at = 0
  let line = 1
  let counted = 0

  const countTo = (end: number): void => {
    for (
      let index = window.indexOf(0x0a, counted);
      index >= 0 && index < end;
      index = window.indexOf(0x0a, index + 1)
    ) {
      line++
    }
    counted = Math.max(counted, end)
  }
  /** Adds a match; false when it exceeds the limit. */
  const take = (index: number): boolean => {
    if (base + index < from) return true
    const shown = around(window, index - context, index + needle.length + context)
    bytesLeft -= jsonBytes(shown)
    if (matches.length === limit || (bytesLeft < 0 && matches.length > 0)) {
      next = base + index
      return false
    }
    matches.push({ line, offset: base + index, text: shown })
    return true
  }
  const look = (isEnd: boolean): boolean => {
    for (let index = window.indexOf(needle, at); index >= 0; index = window.indexOf(needle, at)) {
      at = index
      // The context after the match is not complete yet.
      if (!isEnd && index + needle.length + context > window.length) return false
      countTo(index)
      if (!take(index)) return true
      at = index + needle.length
    }
    at = Math.max(at, window.length - needle.length + 1)
    return false
  }
  const forget = (): void => {
    const gone = Math.max(0, at - context)
    countTo(gone)
    window = window.subarray(gone)
    base += gone
    at -= gone
    counted -= gone
  }
  return {
    /** True when there are enough matches. */
    add(piece: Buffer): boolean {
      window = Buffer.concat([window, piece])
      if (look(false)) return true
      forget()
      return false
    },
    end: (): void => void look(true),
    result: (): SearchResult => (next === undefined ? { matches } : { matches, next }),
  }
}

/** A part of the buffer as text, without characters that were split at its ends. */
function around(window: Buffer, start: number, end: number): string {
  const part = window.subarray(Math.max(0, start), end)
  return part.subarray(cutStart(part), wholeEnd(part)).toString()
}
