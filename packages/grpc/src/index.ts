export { type GrpcOptions, grpc } from './grpc.ts'
