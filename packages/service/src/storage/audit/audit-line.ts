import type { AuditEntry } from './audit-reader.ts'

/** Characters that JSON leaves in and a terminal or another reader may take for more than text. */
const unsafe = /[\u007f-\u009f\u2028\u2029]/g

const members = {
  row: [
    ...['kind', 'seq', 'at', 'tenant', 'principal', 'callId', 'fence', 'phase', 'tool'],
    ...['worker', 'status', 'code', 'config', 'details'],
  ],
  seal: ['kind', 'n', 'prev', 'afterSeq', 'uptoSeq', 'seqs', 'digests', 'sealedAt', 'keyId', 'hash'],
  stray: ['kind', 'seq'],
} as const

/**
 * The one line that an export has for an entry, without its end: only the members that we know, always in the same order,
 * so that a line which says the same in other words, or says more, is found out by comparing.
 */
export function lineOf(entry: AuditEntry): string {
  const text = JSON.stringify(entry, [...members[entry.kind]])
  return text.replace(unsafe, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
