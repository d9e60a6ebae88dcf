/** A body, or a part of one. */
export interface Fields {
  readonly [name: string]: unknown
}

type Kind = 'string' | 'number' | 'boolean' | readonly string[] | Shape

interface Shape {
  readonly required: { readonly [name: string]: Kind }
  readonly optional?: { readonly [name: string]: Kind }
}

/** The requests that there are, with the fields that they must and may have: definitions of the swagger file. */
const requests: { readonly [request: string]: Shape } = {
  'PUT /machine-config': {
    required: { vcpu_count: 'number', mem_size_mib: 'number' },
    optional: { smt: 'boolean', track_dirty_pages: 'boolean', huge_pages: ['None', '2M'] },
  },
  'PUT /boot-source': {
    required: { kernel_image_path: 'string' },
    optional: { boot_args: 'string', initrd_path: 'string' },
  },
  'PUT /drives': {
    required: { drive_id: 'string', is_root_device: 'boolean', path_on_host: 'string' },
    optional: {
      is_read_only: 'boolean',
      partuuid: 'string',
      cache_type: ['Unsafe', 'Writeback'],
      io_engine: ['Sync', 'Async'],
    },
  },
  'PUT /vsock': { required: { guest_cid: 'number', uds_path: 'string' }, optional: { vsock_id: 'string' } },
  'PUT /entropy': { required: {} },
  'PUT /actions': { required: { action_type: ['InstanceStart', 'FlushMetrics', 'SendCtrlAltDel'] } },
  'PATCH /vm': { required: { state: ['Paused', 'Resumed'] } },
  'PUT /snapshot/create': {
    required: { mem_file_path: 'string', snapshot_path: 'string' },
    optional: { snapshot_type: ['Full', 'Diff'] },
  },
  'PUT /snapshot/load': {
    required: {
      snapshot_path: 'string',
      mem_backend: { required: { backend_type: ['File', 'Uffd'], backend_path: 'string' } },
    },
    optional: { track_dirty_pages: 'boolean', resume_vm: 'boolean' },
  },
}

/** What is wrong with a request; undefined when nothing is. A network interface is none that this server knows. */
export function bodyFault(request: string, body: unknown): string | undefined {
  const shape = requests[request]
  return shape === undefined ? `Invalid request method and/or path: ${request}.` : faultIn(shape, body)
}

function faultIn({ required, optional = {} }: Shape, body: unknown): string | undefined {
  const prefix = 'An error occurred when deserializing the json body of a request:'
  if (!isRecord(body)) return `${prefix} invalid type.`
  for (const name of Object.keys(required)) if (!(name in body)) return `${prefix} missing field \`${name}\`.`
  for (const [name, value] of Object.entries(body)) {
    const kind = required[name] ?? optional[name]
    if (kind === undefined) return `${prefix} unknown field \`${name}\`.`
    if (!fits(kind, value)) return `${prefix} invalid value of \`${name}\`.`
  }
  return undefined
}

function fits(kind: Kind, value: unknown): boolean {
  if (typeof kind === 'string') return typeof value === kind
  if (isList(kind)) return typeof value === 'string' && kind.includes(value)
  return faultIn(kind, value) === undefined
}

function isList(kind: Kind): kind is readonly string[] {
  return Array.isArray(kind)
}

export function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
