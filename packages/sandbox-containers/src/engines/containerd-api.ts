/**
 * The part of containerd's gRPC API that the driver uses, as published with containerd 1.6 and unchanged since: services
 * with their methods, messages with their fields and numbers. A field is `type number`; `[]` marks a list, `{}` a map
 * from strings.
 */
interface ApiPackage {
  readonly services?: { readonly [service: string]: { readonly [method: string]: string } }
  readonly messages?: { readonly [message: string]: { readonly [field: string]: string } }
  readonly enums?: { readonly [name: string]: { readonly [value: string]: number } }
}

const any = 'google.protobuf.Any'
const empty = 'google.protobuf.Empty'
const descriptor = 'containerd.types.Descriptor'
const mounts = 'containerd.types.Mount[]'

const packages: { readonly [name: string]: ApiPackage } = {
  'google.protobuf': {
    messages: { Empty: {}, Any: { type_url: 'string 1', value: 'bytes 2' }, FieldMask: { paths: 'string[] 1' } },
  },
  'containerd.types': {
    messages: {
      Mount: { type: 'string 1', source: 'string 2', target: 'string 3', options: 'string[] 4' },
      Descriptor: { mediaType: 'string 1', digest: 'string 2', size: 'int64 3', annotations: 'string{} 5' },
    },
  },
  'containerd.services.version.v1': {
    services: { Version: { Version: `${empty} VersionResponse` } },
    messages: { VersionResponse: { version: 'string 1', revision: 'string 2' } },
  },
  'containerd.services.containers.v1': {
    services: {
      Containers: {
        List: 'ListContainersRequest ListContainersResponse',
        Create: 'CreateContainerRequest CreateContainerResponse',
        Delete: `DeleteContainerRequest ${empty}`,
      },
    },
    messages: {
      Runtime: { name: 'string 1', options: `${any} 2` },
      Container: {
        id: 'string 1',
        labels: 'string{} 2',
        image: 'string 3',
        runtime: 'Runtime 4',
        spec: `${any} 5`,
        snapshotter: 'string 6',
        snapshotKey: 'string 7',
      },
      ListContainersRequest: { filters: 'string[] 1' },
      ListContainersResponse: { containers: 'Container[] 1' },
      CreateContainerRequest: { container: 'Container 1' },
      CreateContainerResponse: { container: 'Container 1' },
      DeleteContainerRequest: { id: 'string 1' },
    },
  },
  'containerd.services.tasks.v1': {
    services: {
      Tasks: {
        Create: 'CreateTaskRequest CreateTaskResponse',
        Start: 'StartRequest StartResponse',
        Kill: `KillRequest ${empty}`,
        CloseIO: `CloseIORequest ${empty}`,
        Wait: 'WaitRequest WaitResponse',
        Delete: 'DeleteTaskRequest DeleteResponse',
        Pause: `PauseTaskRequest ${empty}`,
        Resume: `ResumeTaskRequest ${empty}`,
      },
    },
    messages: {
      CreateTaskRequest: {
        containerId: 'string 1',
        rootfs: `${mounts} 3`,
        stdin: 'string 4',
        stdout: 'string 5',
        stderr: 'string 6',
        options: `${any} 9`,
      },
      CreateTaskResponse: { containerId: 'string 1', pid: 'uint32 2' },
      StartRequest: { containerId: 'string 1' },
      StartResponse: { pid: 'uint32 1' },
      KillRequest: { containerId: 'string 1', signal: 'uint32 3', all: 'bool 4' },
      CloseIORequest: { containerId: 'string 1', stdin: 'bool 3' },
      WaitRequest: { containerId: 'string 1' },
      WaitResponse: { exitStatus: 'uint32 1' },
      DeleteTaskRequest: { containerId: 'string 1' },
      DeleteResponse: { exitStatus: 'uint32 3' },
      PauseTaskRequest: { containerId: 'string 1' },
      ResumeTaskRequest: { containerId: 'string 1' },
    },
  },
  'containerd.services.snapshots.v1': {
    services: {
      Snapshots: {
        View: 'ViewSnapshotRequest ViewSnapshotResponse',
        Prepare: 'ViewSnapshotRequest ViewSnapshotResponse',
        Commit: `CommitSnapshotRequest ${empty}`,
        Stat: 'SnapshotRequest StatSnapshotResponse',
        Remove: `SnapshotRequest ${empty}`,
        List: 'ListSnapshotsRequest stream ListSnapshotsResponse',
        Usage: 'SnapshotRequest UsageResponse',
      },
    },
    messages: {
      ViewSnapshotRequest: { snapshotter: 'string 1', key: 'string 2', parent: 'string 3', labels: 'string{} 4' },
      ViewSnapshotResponse: { mounts: `${mounts} 1` },
      CommitSnapshotRequest: { snapshotter: 'string 1', name: 'string 2', key: 'string 3', labels: 'string{} 4' },
      SnapshotRequest: { snapshotter: 'string 1', key: 'string 2' },
      StatSnapshotResponse: { info: 'Info 1' },
      ListSnapshotsRequest: { snapshotter: 'string 1', filters: 'string[] 2' },
      ListSnapshotsResponse: { info: 'Info[] 1' },
      UsageResponse: { size: 'int64 1' },
      Info: { name: 'string 1', parent: 'string 2', labels: 'string{} 6' },
    },
  },
  'containerd.services.images.v1': {
    services: {
      Images: {
        Get: 'GetImageRequest GetImageResponse',
        List: 'ListImagesRequest ListImagesResponse',
        Create: 'ImageRequest GetImageResponse',
        Update: 'ImageRequest GetImageResponse',
        Delete: `DeleteImageRequest ${empty}`,
      },
    },
    messages: {
      Timestamp: { seconds: 'int64 1' },
      Image: { name: 'string 1', labels: 'string{} 2', target: `${descriptor} 3`, createdAt: 'Timestamp 7' },
      GetImageRequest: { name: 'string 1' },
      GetImageResponse: { image: 'Image 1' },
      ListImagesRequest: { filters: 'string[] 1' },
      ListImagesResponse: { images: 'Image[] 1' },
      ImageRequest: { image: 'Image 1' },
      DeleteImageRequest: { name: 'string 1', sync: 'bool 2' },
    },
  },
  'containerd.services.content.v1': {
    services: {
      Content: {
        Read: 'ReadContentRequest stream ReadContentResponse',
        Write: 'stream WriteContentRequest stream WriteContentResponse',
      },
    },
    messages: {
      ReadContentRequest: { digest: 'string 1', offset: 'int64 2', size: 'int64 3' },
      ReadContentResponse: { offset: 'int64 1', data: 'bytes 2' },
      WriteContentRequest: {
        action: 'WriteAction 1',
        ref: 'string 2',
        total: 'int64 3',
        expected: 'string 4',
        offset: 'int64 5',
        data: 'bytes 6',
        labels: 'string{} 7',
      },
      WriteContentResponse: { action: 'WriteAction 1', offset: 'int64 4', digest: 'string 6' },
    },
    enums: { WriteAction: { STAT: 0, WRITE: 1, COMMIT: 2 } },
  },
  'containerd.services.diff.v1': {
    services: { Diff: { Apply: 'ApplyRequest ApplyResponse' } },
    messages: {
      ApplyRequest: { diff: `${descriptor} 1`, mounts: `${mounts} 2` },
      ApplyResponse: { applied: `${descriptor} 1` },
    },
  },
  'containerd.services.leases.v1': {
    services: { Leases: { Create: 'CreateRequest CreateResponse', Delete: `DeleteRequest ${empty}` } },
    messages: {
      Lease: { id: 'string 1', labels: 'string{} 3' },
      CreateRequest: { id: 'string 1', labels: 'string{} 3' },
      CreateResponse: { lease: 'Lease 1' },
      DeleteRequest: { id: 'string 1', sync: 'bool 2' },
    },
  },
}

export interface Any {
  readonly type_url: string
  readonly value: Uint8Array
}

export interface Mount {
  readonly type: string
  readonly source: string
  readonly target?: string
  readonly options: readonly string[]
}

export interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
}

export interface ImageRecord {
  readonly name: string
  readonly labels: Labels
  readonly target: Descriptor
  readonly createdAt?: { readonly seconds: number } | null
}

export type Labels = { readonly [name: string]: string }

interface ContainerRecord {
  readonly id: string
  readonly labels: Labels
  readonly image: string
  readonly runtime: { readonly name: string; readonly options?: Any }
  readonly spec: Any
}

type Nothing = Readonly<Record<string, never>>
type OfContainer = { readonly containerId: string }
type OfSnapshot = { readonly snapshotter: string; readonly key: string }
type NewSnapshot = OfSnapshot & { readonly parent: string; readonly labels: Labels }

/** Requests that have one answer: what is sent and what comes back. */
export interface UnaryCalls {
  'version.v1.Version/Version': [request: Nothing, answer: { readonly version: string }]
  'containers.v1.Containers/List': [
    { readonly filters: readonly string[] },
    { readonly containers: readonly ContainerRecord[] },
  ]
  'containers.v1.Containers/Create': [{ readonly container: ContainerRecord }, unknown]
  'containers.v1.Containers/Delete': [{ readonly id: string }, unknown]
  'tasks.v1.Tasks/Create': [
    OfContainer & {
      readonly rootfs: readonly Mount[]
      readonly stdin: string
      readonly stdout: string
      readonly stderr: string
      readonly options?: Any
    },
    { readonly pid: number },
  ]
  'tasks.v1.Tasks/Start': [OfContainer, unknown]
  'tasks.v1.Tasks/Kill': [OfContainer & { readonly signal: number; readonly all: boolean }, unknown]
  'tasks.v1.Tasks/CloseIO': [OfContainer & { readonly stdin: boolean }, unknown]
  'tasks.v1.Tasks/Wait': [OfContainer, { readonly exitStatus: number }]
  'tasks.v1.Tasks/Delete': [OfContainer, unknown]
  'tasks.v1.Tasks/Pause': [OfContainer, unknown]
  'tasks.v1.Tasks/Resume': [OfContainer, unknown]
  'snapshots.v1.Snapshots/View': [NewSnapshot, { readonly mounts: readonly Mount[] }]
  'snapshots.v1.Snapshots/Prepare': [NewSnapshot, { readonly mounts: readonly Mount[] }]
  'snapshots.v1.Snapshots/Commit': [OfSnapshot & { readonly name: string; readonly labels: Labels }, unknown]
  'snapshots.v1.Snapshots/Stat': [OfSnapshot, unknown]
  'snapshots.v1.Snapshots/Remove': [OfSnapshot, unknown]
  'snapshots.v1.Snapshots/Usage': [OfSnapshot, { readonly size: number }]
  'images.v1.Images/Get': [{ readonly name: string }, { readonly image: ImageRecord }]
  'images.v1.Images/List': [{ readonly filters: readonly string[] }, { readonly images: readonly ImageRecord[] }]
  'images.v1.Images/Create': [{ readonly image: ImageRecord }, unknown]
  'images.v1.Images/Update': [{ readonly image: ImageRecord }, unknown]
  'images.v1.Images/Delete': [{ readonly name: string; readonly sync: boolean }, unknown]
  'diff.v1.Diff/Apply': [{ readonly diff: Descriptor; readonly mounts: readonly Mount[] }, unknown]
  'leases.v1.Leases/Create': [{ readonly id: string; readonly labels: Labels }, unknown]
  'leases.v1.Leases/Delete': [{ readonly id: string; readonly sync: boolean }, unknown]
}

/** Requests that are answered by a stream. */
export interface StreamCalls {
  'content.v1.Content/Read': [
    { readonly digest: string; readonly offset: number; readonly size: number },
    { readonly data: Uint8Array },
  ]
  'snapshots.v1.Snapshots/List': [
    { readonly snapshotter: string; readonly filters: readonly string[] },
    { readonly info: readonly { readonly name: string; readonly labels: Labels }[] },
  ]
}

export interface WriteRequest {
  readonly action: 'WRITE' | 'COMMIT'
  readonly ref?: string
  readonly total?: number
  readonly expected?: string
  readonly offset?: number
  readonly data?: Uint8Array
  readonly labels?: Labels
}

/** A JSON descriptor of protobufjs: the namespaces, nested by the parts of their names. */
interface Namespace {
  nested?: { [name: string]: Namespace | object }
}

/** The same API in the form that `@grpc/proto-loader` reads. */
export function apiDescriptor(): Namespace {
  const root: Namespace = {}
  for (const [name, content] of Object.entries(packages)) {
    let space = root
    for (const part of name.split('.')) {
      space.nested ??= {}
      space.nested[part] ??= {}
      space = space.nested[part] as Namespace
    }
    space.nested = {
      ...space.nested,
      ...mapped(content.messages, (fields) => ({ fields: mapped(fields, fieldOf) })),
      ...mapped(content.enums, (values) => ({ values })),
      ...mapped(content.services, (methods) => ({ methods: mapped(methods, methodOf) })),
    }
  }
  return root
}

function fieldOf(text: string): object {
  const [, type = '', kind, id] = /^(\S+?)(\[\]|\{\})? (\d+)$/.exec(text) ?? []
  const field = { type, id: Number(id) }
  if (kind === '[]') return { ...field, rule: 'repeated' }
  return kind === '{}' ? { ...field, keyType: 'string' } : field
}

function methodOf(text: string): object {
  const [, requests, requestType, responses, responseType] = /^(stream )?(\S+) (stream )?(\S+)$/.exec(text) ?? []
  return { requestType, responseType, requestStream: requests !== undefined, responseStream: responses !== undefined }
}

function mapped<From, To>(
  from: { readonly [name: string]: From } | undefined,
  convert: (one: From) => To,
): { [name: string]: To } {
  return Object.fromEntries(Object.entries(from ?? {}).map(([name, one]) => [name, convert(one)]))
}
