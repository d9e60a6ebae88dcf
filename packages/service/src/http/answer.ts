import type { Readable } from 'node:stream'
import type { StreamEvent } from '@gantry/contract'

export type AnswerHeaders = { readonly [name: string]: string }

/** What a request is answered with. */
export type Answer = { readonly status: number; readonly headers?: AnswerHeaders } & (
  | { readonly kind: 'json'; readonly body: unknown }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'content'; readonly content: Readable }
  | { readonly kind: 'events'; readonly events: AsyncIterable<StreamEvent> }
  | { readonly kind: 'empty' }
  /** Written already, by whoever worked on it. */
  | { readonly kind: 'sent' }
)

export function json(body: unknown, status = 200, headers: AnswerHeaders = {}): Answer {
  return { kind: 'json', status, headers, body }
}

/** On every answer: nothing of ours is kept, framed, sniffed or run by a browser. */
export const safeHeaders: AnswerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}
