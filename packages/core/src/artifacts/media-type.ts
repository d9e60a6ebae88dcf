import { isUtf8 } from 'node:buffer'
import { extname } from 'node:path'

const text = 'text/plain'
const bytesType = 'application/octet-stream'

/** By the end of a name, in small letters. */
const types: { readonly [extension: string]: string } = {
  avif: 'image/avif',
  csv: 'text/csv',
  gif: 'image/gif',
  gz: 'application/gzip',
  html: 'text/html',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  json: 'application/json',
  md: 'text/markdown',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  parquet: 'application/vnd.apache.parquet',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  tsv: 'text/tab-separated-values',
  wav: 'audio/wav',
  webm: 'video/webm',
  webp: 'image/webp',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  xml: 'application/xml',
  zip: 'application/zip',
}

/** How content of a type begins, where that can be told. */
const beginnings: { readonly [type: string]: string } = {
  'application/gzip': '\x1f\x8b',
  'application/pdf': '%PDF-',
  'application/zip': 'PK',
  'image/gif': 'GIF8',
  'image/jpeg': '\xff\xd8\xff',
  'image/png': '\x89PNG\r\n\x1a\n',
  'image/webp': 'RIFF',
}

/** Types of text, which bytes that are none cannot have. */
const textual = /^text\/|^application\/(?:json|xml)$|\+xml$/

/** The media type of a file by its name, as far as its content bears it out; otherwise by its content alone. */
export function mediaType(name: string, content: Uint8Array): string {
  const extension = extname(name).slice(1).toLowerCase()
  const named = Object.hasOwn(types, extension) ? types[extension] : undefined
  if (named !== undefined && bearsOut(named, content)) return named
  const begun = Object.keys(beginnings).find((type) => type !== 'image/webp' && bearsOut(type, content))
  return begun ?? (isUtf8(content) ? text : bytesType)
}

function bearsOut(type: string, content: Uint8Array): boolean {
  const beginning = Object.hasOwn(beginnings, type) ? beginnings[type] : undefined
  if (beginning !== undefined)
    return Buffer.from(content.subarray(0, beginning.length)).toString('latin1') === beginning
  return !textual.test(type) || isUtf8(content)
}
