"""What the data template, the service template and the gateway's code have to agree in."""

from __future__ import annotations

import fnmatch
from datetime import timedelta
from urllib.parse import urlsplit

from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.spec import FleetSpec
from gateway.settings import Settings
from gateway.settings.meeting import DiscoverySettings, FleetSettings
from tests.infra.deployed import ALL_KINDS, Gateway, service
from tests.support.cloudformation import Stack, at

PASSWORD = "{{resolve:secretsmanager:${Password}:SecretString:password}}"


def url(stack: Stack, gateway: Gateway) -> None:
    """The secret is a URL by which a gateway gets in: by TLS, as the one user, at the right port."""
    text = stack.properties("UrlSecret")["SecretString"]
    host = "${ReplicationGroup.PrimaryEndPoint.Address}"
    assert text == f"rediss://streamhold:{PASSWORD}@{host}:6379/0"
    used = text.replace(PASSWORD, "a" * 64).replace(host, "valkey.example.com")
    Settings(
        fleet=FleetSettings(backend="redis", url=used, cluster=False),
        discovery=DiscoverySettings(kind="fleet"),
    )
    port = urlsplit(used).port
    into = service(**ALL_KINDS).properties("RedisIngress")
    assert {port} == {stack.properties("ReplicationGroup")["Port"], into["FromPort"], into["ToPort"]}
    user = stack.properties("User")
    assert (user["UserName"], user["AuthenticationMode"]["Passwords"]) == ("streamhold", [PASSWORD])
    made = stack.properties("Password")["GenerateSecretString"]
    assert made["ExcludePunctuation"] is True, "it stands in a URL"
    assert 16 <= made["PasswordLength"] <= 128


def rights(stack: Stack, gateway: Gateway) -> None:
    """The user may do what the fleet's scripts do, on the keys of any fleet of any namespace."""
    state, pattern, nothing, *granted = stack.properties("User")["AccessString"].split()
    assert (state, nothing) == ("on", "-@all")
    assert sorted(granted) == sorted(f"+{command.lower()}" for command in gateway.commands)
    keys = RedisFleetConfig("streamhold").keys(FleetSpec("replicas", timedelta(seconds=10)))
    literal = pattern.removeprefix("~")
    assert all(fnmatch.fnmatchcase(key, literal) for key in keys)
    assert not fnmatch.fnmatchcase("app:1", literal)


def encryption(stack: Stack, gateway: Gateway) -> None:
    """Nothing of it is in the clear, on the wire or on a disk."""
    group = stack.properties("ReplicationGroup")
    assert group["TransitEncryptionEnabled"] is True
    assert group["TransitEncryptionMode"] == "required"
    assert group["AtRestEncryptionEnabled"] is True
    assert group["UserGroupIds"] == [{"Ref": "UserGroup"}]
    assert stack.properties("UserGroup")["UserIds"] == [{"Ref": "User"}]


def staying(stack: Stack, gateway: Gateway) -> None:
    """It drops no member for want of room, and outlives the loss of a node."""
    group = stack.properties("ReplicationGroup")
    assert group["Engine"] == stack.properties("User")["Engine"] == "valkey"
    parameters = stack.properties("ParameterGroup")
    assert parameters["Properties"] == {"maxmemory-policy": "noeviction"}
    assert f"valkey{group['EngineVersion'].split('.')[0]}" == parameters["CacheParameterGroupFamily"]
    assert group["CacheParameterGroupName"] == {"Ref": "ParameterGroup"}
    assert group["AutomaticFailoverEnabled"] is True
    assert group["MultiAZEnabled"] is True
    assert int(group["NumCacheClusters"]) >= 2
    # One endpoint, as `fleet.cluster: false` expects, which is what the service stack leaves it at.
    assert "NumNodeGroups" not in group
    assert "ClusterMode" not in group


def closed(stack: Stack, gateway: Gateway) -> None:
    """Nobody is let in but by a security group."""
    groups = stack.of_type("AWS::EC2::SecurityGroup")
    assert all("SecurityGroupIngress" not in group for group in groups.values())
    assert stack.of_type("AWS::EC2::SecurityGroupIngress") == {}
    into = service(**ALL_KINDS).properties("RedisIngress")
    assert into["SourceSecurityGroupId"] == {"Fn::GetAtt": ["GatewayGroup", "GroupId"]}
    assert "CidrIp" not in into


def handed_over(stack: Stack, gateway: Gateway) -> None:
    """What the service stack takes as parameters is what this one gives."""
    given = set(stack.outputs()) & set(service(**ALL_KINDS).template["Parameters"])
    assert given == {"RedisUrlSecretArn", "RedisSecurityGroupId"}
    assert stack.outputs()["RedisUrlSecretArn"] == {"Ref": "UrlSecret"}
    assert at(stack.template, "Resources", "UrlSecret", "Type") == "AWS::SecretsManager::Secret"


AGREEMENTS = (url, rights, encryption, staying, closed, handed_over)
