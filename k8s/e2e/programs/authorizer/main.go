// Authorizer decides on requests for tests of external authorization: over HTTP on port 3000, and by
// Envoy's ext_authz on port 3001. Whoever shows the header `x-token: good` may pass, as `x-user: alice`.
package main

import (
	"context"
	"log"
	"net"
	"net/http"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

const (
	token  = "x-token"
	good   = "good"
	user   = "x-user"
	alice  = "alice"
	denial = "show a good token"
)

type server struct {
	auth.UnimplementedAuthorizationServer
}

func (server) Check(_ context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	headers := request.GetAttributes().GetRequest().GetHttp().GetHeaders()
	if headers[token] != good {
		return &auth.CheckResponse{
			Status: &status.Status{Code: int32(codes.PermissionDenied)},
			HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{
				Status: &envoy.HttpStatus{Code: envoy.StatusCode_Unauthorized},
				Body:   denial,
			}},
		}, nil
	}
	return &auth.CheckResponse{
		Status: &status.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{
			Headers:         []*core.HeaderValueOption{added(user, alice)},
			HeadersToRemove: []string{token},
		}},
	}, nil
}

func added(name, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{
		Header:       &core.HeaderValue{Key: name, Value: value},
		AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

func answer(writer http.ResponseWriter, request *http.Request) {
	if request.Header.Get(token) != good {
		http.Error(writer, denial, http.StatusUnauthorized)
		return
	}
	writer.Header().Set(user, alice)
}

func main() {
	listener, err := net.Listen("tcp", ":3001")
	if err != nil {
		log.Fatal(err)
	}
	calls := grpc.NewServer()
	auth.RegisterAuthorizationServer(calls, server{})
	go func() { log.Fatal(calls.Serve(listener)) }()
	log.Fatal(http.ListenAndServe(":3000", http.HandlerFunc(answer)))
}
