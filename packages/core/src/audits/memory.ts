import type { Audit, AuditRecord } from './audit.ts'

/** The newest records, in the memory of this process. */
export interface MemoryAudit extends Audit {
  /** Oldest first. */
  records(): AuditRecord[]
}

/** Keeps the newest `capacity` records and drops older ones. */
export function memoryAudit(options: { readonly capacity?: number } = {}): MemoryAudit {
  const capacity = options.capacity ?? 1_000
  const ring: AuditRecord[] = []
  let next = 0
  return {
    write(record) {
      ring[next] = record
      next = (next + 1) % capacity
    },
    records: () => (ring.length < capacity ? ring.slice() : [...ring.slice(next), ...ring.slice(0, next)]),
  }
}
